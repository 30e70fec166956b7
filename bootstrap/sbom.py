"""What an image holds above its Debian, as CycloneDX's bill of materials: packages and jars as locked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from packaging.markers import Marker

from bootstrap.extras import EXTRAS
from bootstrap.places import lock_path
from servers.jars import RUNTIME_LOCK, read_lock
from spark_jobs import __version__

_PACKAGE = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>.+?))? \\$")
_HASH = re.compile(r"^    --hash=sha256:([0-9a-f]{64})")


def bill_of_materials(*jar_sets: str) -> str:
    """Return the bill as JSON; the same for the same locks. A package's hashes are those of all its files."""
    # Two locks may name the same package.
    components = {each["purl"]: each for each in (*_packages(), *_jars(*jar_sets))}.values()
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "sluice", "version": __version__}},
        "components": sorted(components, key=lambda component: str(component["purl"])),
    }
    return json.dumps(bill, indent=1) + "\n"


def _packages() -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    locks = (lock_path(name) for name in ("run", *EXTRAS))
    for line in chain.from_iterable(lock.read_text(encoding="utf-8").splitlines() for lock in locks):
        if (package := _PACKAGE.match(line)) is not None:
            found = _component("pypi", package["name"], package["version"])
            if package["marker"] is None or Marker(package["marker"]).evaluate():
                yield found
        elif (sha256 := _HASH.match(line)) is not None:
            found["properties"].append({"name": "sluice:sha256", "value": sha256[1]})


def _jars(*jar_sets: str) -> Iterator[dict[str, Any]]:
    for jar in read_lock(RUNTIME_LOCK, *jar_sets):
        component = _component("maven", jar.artifact, jar.version, jar.group)
        yield component | {"hashes": [{"alg": "SHA-256", "content": jar.sha256}]}


def _component(kind: str, name: str, version: str, group: str = "") -> dict[str, Any]:
    purl = "/".join([f"pkg:{kind}", *([group] if group else []), f"{name}@{version}"])
    described = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return described | ({"group": group} if group else {}) | {"properties": []}

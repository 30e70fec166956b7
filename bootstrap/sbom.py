"""What an image holds above its Debian, as CycloneDX's bill of materials: packages and jars as locked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from packaging.markers import Marker

from bootstrap.places import lock_path
from servers.jars import RUNTIME_LOCK, read_lock
from spark_jobs import __version__

_PACKAGE = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>.+?))? \\$")
_HASH = re.compile(r"^    --hash=sha256:([0-9a-f]{64})")


def bill_of_materials(*jar_sets: str) -> str:
    """Return the bill as JSON; the same for the same locks. A package's hashes are those of all its files."""
    components = [*_packages(), *_jars(*jar_sets)]
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
    for line in lock_path("run").read_text(encoding="utf-8").splitlines():
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

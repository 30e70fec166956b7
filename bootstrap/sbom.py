"""CycloneDX bill of materials of a file: locked packages and jars; for an image without its base."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from bootstrap.places import EXTRAS, lock_path
from servers.jars import RUNTIME_LOCK, read_lock
from spark_jobs import __version__

_LOCKED = re.compile(r"^(\S.*?) \\\n((?:    --hash=.*\n?)+)", re.MULTILINE)
_HASH = re.compile(r"sha256:(\w+)")


def bill_of_materials(*jar_sets: str, of: Path | None = None) -> str:
    """Return the bill as JSON; the same for the same locks. A package's hashes are those of all its files.

    ``of`` is the built file, whose name and hash are in the bill.
    """
    subject: dict[str, Any] = {"type": "application", "name": "sluice", "version": __version__}
    if of is not None:
        digest = hashlib.sha256(of.read_bytes()).hexdigest()
        subject |= {"bom-ref": of.name, "hashes": [{"alg": "SHA-256", "content": digest}]}
    # Two locks may name the same package.
    components = {each["purl"]: each for each in (*_packages(), *_jars(*jar_sets))}.values()
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": subject},
        "components": sorted(components, key=lambda component: str(component["purl"])),
    }
    return json.dumps(bill, indent=1) + "\n"


def _packages() -> Iterator[dict[str, Any]]:
    locks = (lock_path(name).read_text(encoding="utf-8") for name in ("run", *EXTRAS))
    for line, hashes in chain.from_iterable(map(_LOCKED.findall, locks)):
        package = Requirement(line)
        if package.marker is None or package.marker.evaluate():
            (version,) = package.specifier
            found = [{"name": "sluice:sha256", "value": each} for each in _HASH.findall(hashes)]
            yield _component("pypi", package.name, version.version) | {"properties": found}


def _jars(*jar_sets: str) -> Iterator[dict[str, Any]]:
    for jar in read_lock(RUNTIME_LOCK, *jar_sets):
        component = _component("maven", jar.artifact, jar.version, jar.group)
        yield component | {"hashes": [{"alg": "SHA-256", "content": jar.sha256}]}


def _component(kind: str, name: str, version: str, group: str = "") -> dict[str, Any]:
    purl = "/".join([f"pkg:{kind}", *([group] if group else []), f"{name}@{version}"])
    described = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return described | ({"group": group} if group else {}) | {"properties": []}

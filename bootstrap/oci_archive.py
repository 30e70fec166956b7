"""An OCI image as one tar file, without a daemon: layers, configuration and manifest, named by their hashes.

The same folders give the same bytes: entries are sorted, of one time and one owner; nothing is compressed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_IMAGE = "application/vnd.oci.image"
_NAME = "org.opencontainers.image.ref.name"


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder that becomes the image's root, without the paths (relative, as POSIX) that ``leaves_out``."""

    folder: Path
    leaves_out: Callable[[str], bool] = lambda _path: False


def write_archive(
    target: Path, name: str, layers: tuple[Layer, ...], *, architecture: str, config: Mapping[str, Any]
) -> str:
    """Write the image and return its digest, its manifest's; ``config`` is what a container is told."""
    draft = target.with_name(f".{target.name}")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder, tarfile.open(draft, "w") as archive:
        blobs = Path(folder)
        described = [_layer(layer, blobs) for layer in layers]
        image = {
            "architecture": architecture,
            "os": "linux",
            "config": dict(config),
            "rootfs": {"type": "layers", "diff_ids": [each["digest"] for each in described]},
        }
        settings = _blob(image, f"{_IMAGE}.config.v1+json", blobs)
        manifest = _blob(
            {
                "schemaVersion": 2,
                "mediaType": f"{_IMAGE}.manifest.v1+json",
                "config": settings,
                "layers": described,
            },
            f"{_IMAGE}.manifest.v1+json",
            blobs,
        )
        index = {"schemaVersion": 2, "manifests": [manifest | {"annotations": {_NAME: name}}]}
        _add_text(archive, "oci-layout", {"imageLayoutVersion": "1.0.0"})
        _add_text(archive, "index.json", index)
        for blob in sorted(blobs.iterdir()):
            with blob.open("rb") as content:
                archive.addfile(_entry(f"blobs/sha256/{blob.name}", blob.stat().st_size), content)
    draft.replace(target)
    return str(manifest["digest"])


def _layer(layer: Layer, blobs: Path) -> dict[str, Any]:
    draft = blobs / "draft"
    with tarfile.open(draft, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in _below(layer.folder, layer.folder, layer.leaves_out):
            _add(tar, path, path.relative_to(layer.folder).as_posix())
    with draft.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    size = draft.stat().st_size
    draft.rename(blobs / digest)
    return {"mediaType": f"{_IMAGE}.layer.v1.tar", "digest": f"sha256:{digest}", "size": size}


def _below(root: Path, folder: Path, leaves_out: Callable[[str], bool]) -> Iterator[Path]:
    for each in sorted(os.scandir(folder), key=lambda found: found.name):
        path = Path(each.path)
        if not leaves_out(path.relative_to(root).as_posix()):
            yield path
            if each.is_dir(follow_symlinks=False):
                yield from _below(root, path, leaves_out)


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Add one file, folder or link; sockets and devices are no part of an image."""
    found = path.lstat()
    entry = _entry(name, 0)
    entry.mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
    elif stat.S_ISDIR(found.st_mode):
        entry.type = tarfile.DIRTYPE
    elif stat.S_ISREG(found.st_mode):
        entry.size = found.st_size
        with path.open("rb") as content:
            tar.addfile(entry, content)
        return
    else:
        return
    tar.addfile(entry)


def _blob(content: Mapping[str, Any], media_type: str, blobs: Path) -> dict[str, Any]:
    text = _json(content)
    digest = hashlib.sha256(text).hexdigest()
    (blobs / digest).write_bytes(text)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(text)}


def _add_text(archive: tarfile.TarFile, name: str, content: Mapping[str, Any]) -> None:
    text = _json(content)
    archive.addfile(_entry(name, len(text)), io.BytesIO(text))


def _entry(name: str, size: int) -> tarfile.TarInfo:
    """Return an entry of root's, of 1970."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

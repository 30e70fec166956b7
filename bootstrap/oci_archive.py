"""An OCI image as one tar file, without a daemon: layers, configuration and manifest, named by their hashes.

The same folders give the same bytes: entries are sorted, of one time and one owner; nothing is compressed.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import tempfile
from collections.abc import Callable, Mapping
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
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        blobs = Path(folder, "blobs", "sha256")
        blobs.mkdir(parents=True)
        described = [_layer(layer, blobs) for layer in layers]
        image = {
            "architecture": architecture,
            "os": "linux",
            "config": dict(config),
            "rootfs": {"type": "layers", "diff_ids": [each["digest"] for each in described]},
        }
        whole = {
            "schemaVersion": 2,
            "mediaType": f"{_IMAGE}.manifest.v1+json",
            "config": _blob(image, f"{_IMAGE}.config.v1+json", blobs),
            "layers": described,
        }
        manifest = _blob(whole, f"{_IMAGE}.manifest.v1+json", blobs)
        index = {"schemaVersion": 2, "manifests": [manifest | {"annotations": {_NAME: name}}]}
        Path(folder, "index.json").write_bytes(_json(index))
        Path(folder, "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
        _pack(Path(folder), draft, _plain)
    draft.replace(target)
    return str(manifest["digest"])


def _layer(layer: Layer, blobs: Path) -> dict[str, Any]:
    def kept(found: tarfile.TarInfo) -> tarfile.TarInfo | None:
        # Sockets and devices are no part of an image.
        is_part = found.isreg() or found.isdir() or found.issym()
        return found if is_part and not layer.leaves_out(found.name) else None

    draft = blobs / "draft"
    _pack(layer.folder, draft, kept)
    with draft.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    size = draft.stat().st_size
    draft.rename(blobs / digest)
    return {"mediaType": f"{_IMAGE}.layer.v1.tar", "digest": f"sha256:{digest}", "size": size}


def _pack(folder: Path, target: Path, kept: Callable[[tarfile.TarInfo], tarfile.TarInfo | None]) -> None:
    """Pack what is in the folder, as root's and of 1970."""

    def anonymous(found: tarfile.TarInfo) -> tarfile.TarInfo | None:
        found.uid = found.gid = found.mtime = 0
        found.uname = found.gname = ""
        if found.islnk():  # two names of one file, which depends on how it was installed
            found.type, found.linkname = tarfile.REGTYPE, ""
            found.size = (folder / found.name).stat().st_size
        return kept(found)

    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name, filter=anonymous)


def _plain(found: tarfile.TarInfo) -> tarfile.TarInfo:
    found.mode = 0o755 if found.isdir() else 0o644
    return found


def _blob(content: Mapping[str, Any], media_type: str, blobs: Path) -> dict[str, Any]:
    text = _json(content)
    digest = hashlib.sha256(text).hexdigest()
    (blobs / digest).write_bytes(text)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(text)}


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

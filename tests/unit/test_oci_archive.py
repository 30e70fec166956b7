"""An image's archive: the same folders give the same bytes, and what it says of itself is so."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING

from bootstrap.oci_archive import Layer, write_archive

if TYPE_CHECKING:
    from pathlib import Path


def make(root: Path, names: list[str], time: int) -> Path:
    """A folder whose files were made in this order, at this time."""
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        os.utime(file, (time, time))
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("run.sh")
    return root


def write(target: Path, root: Path) -> str:
    """An image of one layer."""
    layers = (Layer(root, lambda path: path.startswith("tmp/")),)
    return write_archive(target, "1.0", layers, architecture="amd64", config={"User": "10001:10001"})


def test_the_same_folders_give_the_same_bytes(tmp_path: Path) -> None:
    """Whenever, and in whatever order, their files were made."""
    names = ["run.sh", "a/b", "a/c", "tmp/left"]
    first, second = make(tmp_path / "first", names, 1), make(tmp_path / "second", [*reversed(names)], 2)
    assert write(tmp_path / "1.tar", first) == write(tmp_path / "2.tar", second)
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
    (second / "a" / "b").write_text("another")
    assert write(tmp_path / "1.tar", first) != write(tmp_path / "2.tar", second)


def test_an_archive_holds_what_its_index_names(tmp_path: Path) -> None:
    """Index, manifest, configuration and layer follow by size and hash; folders can be left out."""
    digest = write(tmp_path / "1.tar", make(tmp_path / "root", ["run.sh", "a/b", "tmp/left"], 1))
    with tarfile.open(tmp_path / "1.tar") as archive:

        def blob(described: dict[str, object]) -> bytes:
            name = str(described["digest"]).removeprefix("sha256:")
            stream = archive.extractfile(f"blobs/sha256/{name}")
            assert stream is not None
            content = stream.read()
            assert (hashlib.sha256(content).hexdigest(), len(content)) == (name, described["size"])
            return content

        read = archive.extractfile("index.json")
        assert read is not None
        (described,) = json.load(read)["manifests"]
        assert described["digest"] == digest
        manifest = json.loads(blob(described))
        config = json.loads(blob(manifest["config"]))
        (layer,) = manifest["layers"]
        assert config["config"] == {"User": "10001:10001"}
        assert config["rootfs"]["diff_ids"] == [layer["digest"]]
        with tarfile.open(fileobj=io.BytesIO(blob(layer))) as files:
            assert {each.name: (each.mode, each.uid, each.mtime, each.linkname) for each in files} == {
                "a": (0o755, 0, 0, ""),
                "a/b": (0o644, 0, 0, ""),
                "link": (0o777, 0, 0, "run.sh"),
                "run.sh": (0o755, 0, 0, ""),
                "tmp": (0o755, 0, 0, ""),
            }

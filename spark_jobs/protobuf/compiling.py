"""A schema as a registry or a file has it, as descriptors, with all that it imports.

Python's serializers register descriptors in base64, Java's the text, which is compiled; either may refer to
either.
"""

from __future__ import annotations

import base64
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from spark_jobs.protobuf.types import WELL_KNOWN
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.writer_schema import SchemaText

MAIN = "the-schema.proto"
_SECONDS = 30


def compiled(source: SchemaText) -> bytes:
    """Return a ``FileDescriptorSet``, the schema's own file last, each after those it imports.

    Raises ``ConfigError`` (``schema-unreadable``) for what is neither Protobuf's text nor a descriptor.
    """
    texts: dict[str, str] = {}
    files: dict[str, FileDescriptorProto] = {}
    for name, text in (*source.references, (MAIN, source.text)):
        _refuse_path(name)
        if (file := _descriptor(text)) is None:
            texts[name] = text
        else:
            # Who imports it does so by the name it was registered under.
            file.name = name
            files[name] = file
    if texts:
        files |= {file.name: file for file in _compile(texts, files.values())}
    whole = FileDescriptorSet(file=_in_order(MAIN, files, set()))
    return bytes(whole.SerializeToString(deterministic=True))


def _descriptor(text: str) -> FileDescriptorProto | None:
    """Return the descriptor that a text is in base64; None for any other text."""
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None


def _refuse_path(name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not name.isprintable():
        raise _unreadable(f"it refers to {name!r}, which is no name to import by")


def _compile(texts: dict[str, str], known: Iterable[FileDescriptorProto]) -> Iterator[FileDescriptorProto]:
    with tempfile.TemporaryDirectory(prefix="sluice-") as place:
        folder = Path(place)
        for name, text in texts.items():
            file = folder / "texts" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        (folder / "known").write_bytes(FileDescriptorSet(file=[*known]).SerializeToString())
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder / 'texts'}"]
        command += ["--include_imports", "--include_source_info", f"--descriptor_set_out={folder / 'out'}"]
        command += [f"--descriptor_set_in={folder / 'known'}"] if any(known) else []
        try:
            done = subprocess.run(
                [*command, *([MAIN] if MAIN in texts else texts)],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
                env={"PATH": os.defpath},
            )
        except subprocess.TimeoutExpired:
            raise _unreadable(f"it was not compiled within {_SECONDS} s") from None
        if done.returncode:
            lines = done.stderr.replace(f"{folder / 'texts'}/", "").splitlines()
            raise _unreadable(
                next((line for line in lines if "error" in line or MAIN in line), done.stderr[:200])
            )
        yield from FileDescriptorSet.FromString((folder / "out").read_bytes()).file


def _in_order(
    name: str, files: dict[str, FileDescriptorProto], seen: set[str]
) -> Iterator[FileDescriptorProto]:
    if name in seen:
        return
    seen.add(name)
    file = files.get(name) or _well_known(name)
    for each in file.dependency:
        yield from _in_order(each, files, seen)
    yield file


def _well_known(name: str) -> FileDescriptorProto:
    if name.startswith(WELL_KNOWN) and name.removesuffix(".proto").replace("/", "").isidentifier():
        module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
        try:
            importlib.import_module(module)
            file = descriptor_pool.Default().FindFileByName(name)
        except (ImportError, KeyError):
            pass
        else:
            found = FileDescriptorProto()
            file.CopyToProto(found)
            return found
    raise _unreadable(f"it imports {name}, which is not among its references")


def _unreadable(why: str) -> ConfigError:
    return ConfigError(
        f"a schema is not Protobuf: {why}",
        code="schema-unreadable",
        hint="Correct the file under `value:`, or what is registered.",
    )

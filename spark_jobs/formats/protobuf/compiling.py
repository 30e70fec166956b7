"""Compiles a schema from a registry or a file, with all its imports, to descriptors.

Python's serializers register descriptors in base64, Java's the text, which is compiled; either may refer to
either.
"""

from __future__ import annotations

import base64
import importlib
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from importlib.resources import files as files_of
from pathlib import Path, PurePosixPath

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from spark_jobs.formats import tree
from spark_jobs.protocol.errors import needs
from spark_jobs.schema.writer_schema import SchemaText

MAIN = "the-schema.proto"
_SECONDS = 30
_MOST_REASONS = 3
_IMPORT = re.compile(r'\bimport\s+(?:public\s+|weak\s+)?"([^"]+)"\s*;')
# What serializers register no schema of, since every reader has it.
_WELL_KNOWN = ("google/", "confluent/")
unreadable = partial(tree.unreadable, "Protobuf schema")


def compiled(source: SchemaText) -> bytes:
    """Return a ``FileDescriptorSet``: each file after its imports, the schema's own last.

    Raises ``ConfigError`` (``schema-unreadable``) for what is neither Protobuf's text nor a descriptor.
    """
    texts: dict[str, str] = {}
    files: dict[str, FileDescriptorProto] = {}
    for name, text in (*source.references, (MAIN, source.text)):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not name.isprintable():
            raise unreadable(f"it refers to {name!r}, which cannot be imported by name")
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (ValueError, DecodeError):
            texts[name] = text
        else:
            # Who imports it does so by the name it was registered under.
            file.name = name
            files[name] = file
    if texts:
        known = _imported(texts, files) | files
        files |= {file.name: file for file in _compile(texts, known.values())}
    whole = FileDescriptorSet(file=_in_order(MAIN, files, set()))
    return bytes(whole.SerializeToString(deterministic=True))


def _imported(
    texts: Mapping[str, str], files: Mapping[str, FileDescriptorProto]
) -> dict[str, FileDescriptorProto]:
    """Return the well-known files that these files import, directly or not."""
    names = {name for text in texts.values() for name in _IMPORT.findall(text)}
    names.update(name for file in files.values() for name in file.dependency)
    well_known = sorted(
        name for name in names - texts.keys() - files.keys() if _well_known_file(name) is not None
    )
    seen: set[str] = set()
    return {file.name: file for name in well_known for file in _in_order(name, {}, seen)}


def _compile(texts: dict[str, str], known: Iterable[FileDescriptorProto]) -> Iterator[FileDescriptorProto]:
    with needs("protobuf"):
        import grpc_tools  # noqa: F401, PLC0415  (whose compiler is run)
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
            raise unreadable(f"it was not compiled within {_SECONDS} s") from None
        if done.returncode:
            raise unreadable(_reasons(done.stderr.replace(f"{folder / 'texts'}/", ""), texts))
        yield from FileDescriptorSet.FromString((folder / "out").read_bytes()).file


def _reasons(output: str, names: Collection[str]) -> str:
    """Return a compiler's errors about the files, without warnings; all output if there are none."""
    lines = [line for line in output.splitlines() if "warning:" not in line.lower()]
    of_files = [line for line in lines if line.startswith(tuple(f"{name}:" for name in names))]
    return "; ".join(of_files[:_MOST_REASONS]) or output[-300:].strip()


def _in_order(
    name: str, files: dict[str, FileDescriptorProto], seen: set[str]
) -> Iterator[FileDescriptorProto]:
    if name in seen:
        return
    seen.add(name)
    file = files.get(name) or _well_known_file(name)
    if file is None:
        raise unreadable(f"it imports {name}, which is not among its references")
    for each in file.dependency:
        yield from _in_order(each, files, seen)
    yield file


def _well_known_file(name: str) -> FileDescriptorProto | None:
    """Return a well-known file, or None for any other name."""
    module = f"{name.removesuffix('.proto')}_pb2"
    if not name.startswith(_WELL_KNOWN) or not module.replace("/", "").isidentifier():
        return None
    try:
        if name.startswith("google/"):
            importlib.import_module(module.replace("/", "."))
        else:
            # Its package would import what Confluent's serializers need, and Sluice does not have.
            runpy.run_path(str(files_of("confluent_kafka") / "schema_registry" / f"{module}.py"))
        file = descriptor_pool.Default().FindFileByName(name)
    except (ImportError, KeyError, OSError):
        return None
    found = FileDescriptorProto()
    file.CopyToProto(found)
    return found

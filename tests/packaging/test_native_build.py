"""The committed WebAssembly module is what its source builds."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bootstrap.native import MODULE, build
from bootstrap.places import Places
from prove.hostile.json_corpus import SCHEMA
from servers.cache import user_cache
from spark_jobs.formats.json import native
from tests.support.typed_json import Writer

if TYPE_CHECKING:
    import pytest


def test_the_source_builds_the_committed_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Byte for byte where the compiler is the one that built it; elsewhere it takes the same records."""
    built = build(Places(user_cache()))
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        assert built == MODULE.read_bytes()
        return
    values = Writer(1).records(2_000)
    committed = native.take(values, SCHEMA)
    module = tmp_path / "json.wasm"
    module.write_bytes(built)
    monkeypatch.setattr(native, "_MODULE", module)
    monkeypatch.setattr(native, "_engines", [])
    monkeypatch.setattr(native, "_local", type(native._local)())
    taken = native.take(values, SCHEMA)
    assert taken is not None
    assert committed is not None
    assert taken.table.equals(committed.table)

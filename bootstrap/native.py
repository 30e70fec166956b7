"""Builds the WebAssembly module that decodes JSON from ``native/json.c``, with the locked compiler.

The same source and compiler give the same bytes, wherever they are: no path and no time is in them.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from bootstrap.install import fetch_tool
from bootstrap.places import LOCKS, ROOT, Places

SOURCE = ROOT / "native" / "json.c"
MODULE = ROOT / "spark_jobs" / "formats" / "json" / "json.wasm"
COMPILER_LOCK = LOCKS / "native.txt"
_FLAGS = (
    *("-target", "wasm32-freestanding", "-mcpu=generic+simd128+bulk_memory+sign_ext+nontrapping_fptoint"),
    *("-std=c11", "-O3", "-g0", "-Wall", "-Wextra", "-Werror", "-nostdlib"),
    *("-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=65536"),
    *(f"-Wl,--export={name}" for name in ("__heap_base", "call", "ignored")),
)


def build(places: Places) -> bytes:
    """Return the module built from the source. Raises ``SetupError`` or ``subprocess.CalledProcessError``."""
    compiler = fetch_tool(places, COMPILER_LOCK) / "ziglang" / "zig"
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "json.wasm")
        command: list[str | Path] = [compiler, "cc", *_FLAGS, "-o", module, SOURCE.name]
        caches = {"ZIG_LOCAL_CACHE_DIR": folder, "ZIG_GLOBAL_CACHE_DIR": f"{folder}/global"}
        subprocess.run(command, cwd=SOURCE.parent, env=caches, check=True)
        return module.read_bytes()


def rebuild(places: Places) -> int:
    """Write the module beside the code that runs it and say so; return the exit code."""
    built = build(places)
    is_new = not MODULE.exists() or MODULE.read_bytes() != built
    MODULE.write_bytes(built)
    print(f"{MODULE.relative_to(ROOT)}: {len(built)} bytes, {'changed' if is_new else 'as before'}")
    return 0

"""WebAssembly modules like the one that decodes JSON, whose call never returns or fails."""

from __future__ import annotations

import wasmtime

_LIKE_OURS = """(module (memory (export "memory") 4) (global (export "__heap_base") i32 (i32.const 1024))
  (global (export "call") i32 (i32.const 0)) (global (export "ignored") i32 (i32.const 0))
  (func (export "decode") {body}))"""
LOOP = "(loop (br 0)) (unreachable)"
TRAP = "(drop (i32.div_u (i32.const 1) (i32.const 0)))"


def faulty_module(body: str) -> bytes:
    """Return a module whose call does this."""
    return bytes(wasmtime.wat2wasm(_LIKE_OURS.format(body=body)))

"""Values of one Avro schema rewritten in another: Avro's schema resolution, for rehearsals alone.

By fastavro, without logical types: what is beneath them is copied as it is. Drains never resolve: they read
each value by the schema that it was written with.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException

from spark_jobs.formats.tree import unreadable
from spark_jobs.schema.writer_schema import SchemaText

_NOT_RESOLVED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    RecursionError,
    SchemaResolutionError,
    TypeError,
    ValueError,
)


def rewriter(old: SchemaText, new: SchemaText) -> Callable[[bytes], bytes]:
    """Return a function from an unframed value of ``old`` to one of ``new``.

    It raises ``ValueError`` for a value that cannot be read or has no place in ``new``, for example without
    a field that has no default. Raises ``ConfigError`` (``schema-unreadable``) for what fastavro refuses.
    """
    written, wanted = _parsed(old), _parsed(new)

    def rewrite(value: bytes) -> bytes:
        target = BytesIO()
        try:
            # With names, because a union's branch is not to be guessed from the value.
            read: Any = schemaless_reader(BytesIO(value), written, wanted, return_named_type=True)
            schemaless_writer(target, wanted, read)
        except _NOT_RESOLVED as error:
            raise ValueError(str(error) or type(error).__name__) from error
        return target.getvalue()

    return rewrite


def _parsed(source: SchemaText) -> Any:
    named: dict[str, Any] = {}
    try:
        for _, text in source.references:
            parse_schema(_without_logic(text), named)
        return parse_schema(_without_logic(source.text), named)
    except (SchemaParseException, LookupError, TypeError, ValueError) as error:
        raise unreadable("Avro schema", error) from error


def _without_logic(text: str) -> Any:
    return json.loads(
        text, object_hook=lambda each: {key: value for key, value in each.items() if key != "logicalType"}
    )

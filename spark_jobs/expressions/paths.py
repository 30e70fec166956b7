"""JMESPath on a parsed JSON document; fractional numbers are decimals, whole ones integers."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions, signature

from spark_jobs.expressions.judging import ExpressionError

_HINT = "See jmespath.org: customer.name, items[0].sku, tags[?name == 'x'].value | [0]."


class _WithDecimals(Functions):  # type: ignore[misc]
    """JMESPath functions that know floats; three are overridden to accept decimals."""

    @signature({"types": []})  # type: ignore[untyped-decorator]
    def _func_type(self, arg: Any) -> Any:
        return "number" if isinstance(arg, Decimal) else super()._func_type(arg)

    @signature({"types": []})  # type: ignore[untyped-decorator]
    def _func_to_number(self, arg: Any) -> Any:
        return arg if isinstance(arg, Decimal) else super()._func_to_number(arg)

    @signature({"types": []})  # type: ignore[untyped-decorator]
    def _func_to_string(self, arg: Any) -> Any:
        return arg if isinstance(arg, str) else json.dumps(arg, separators=(",", ":"), default=_refuse)


_OPTIONS = jmespath.Options(custom_functions=_WithDecimals())


@lru_cache(1024)
def compiled(text: str) -> Any:
    """Return the compiled path for ``search``. Raises ``ExpressionError``."""
    try:
        return jmespath.compile(text)
    except (JMESPathError, RecursionError) as error:
        raise ExpressionError(f"is not a JMESPath expression: {str(error).splitlines()[0]}", _HINT) from error


def found(text: str, document: object) -> Any:
    """Return the path's result. Raises ``ExpressionError`` if the path cannot be followed."""
    try:
        return compiled(text).search(document, _OPTIONS)
    except (JMESPathError, ArithmeticError, TypeError, ValueError, RecursionError) as error:
        raise ExpressionError(str(error).splitlines()[0]) from error


def _refuse(_value: object) -> str:
    raise TypeError("to_string of a number with a fraction: its digits would change")

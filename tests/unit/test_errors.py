"""Errors: what they say, and that they stay what they are across borders that lose types."""

from __future__ import annotations

import json
import pickle

import pytest

from spark_jobs.protocol.errors import KINDS, RetryableError, SluiceError, error_from_json, error_to_json


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_errors_survive_pickle_and_json(kind: type[SluiceError]) -> None:
    """A task's error and a process's error arrive with their kind, code, hint and coordinates."""
    error = kind("it broke", code="broken", hint="Mend it.", table="a.b", batch=7, topic=None)
    for again in (
        pickle.loads(pickle.dumps(error)),  # noqa: S301  (made one line above)
        error_from_json(json.loads(json.dumps(error_to_json(error)))),
    ):
        assert type(again) is kind
        assert (again.message, again.code, again.hint) == ("it broke", "broken", "Mend it.")
        assert again.where == {"table": "a.b", "batch": "7"}
        assert str(again) == "it broke (table a.b, batch 7) [broken] Mend it."


def test_every_kind_is_known_by_its_name() -> None:
    """A new kind that is missing here could not cross a border."""
    assert {kind.__name__: kind for kind in SluiceError.__subclasses__()} == KINDS


def test_an_error_without_coordinates_has_no_empty_brackets() -> None:
    """The one line stays readable."""
    assert str(RetryableError("away", code="broker-away", hint="Wait.")) == "away [broker-away] Wait."


def test_exit_codes_tell_what_to_do() -> None:
    """Retryable kinds share the code that means "try again"; no other kind has it."""
    retryable = {kind for kind in KINDS.values() if kind.is_retryable}
    assert {kind.exit_code for kind in retryable} == {75}
    assert all(kind.exit_code not in {0, 75} for kind in set(KINDS.values()) - retryable)


def test_a_pipeline_is_named_where_the_error_does_not_know_it() -> None:
    """In the commands of the hint, and next to the message unless that names a place."""
    error = RetryableError("away", code="broker-away", hint="Run ./sluice check PIPELINE.")
    error.name_pipeline("orders")
    assert str(error) == "away (pipeline orders) [broker-away] Run ./sluice check orders."
    error = RetryableError("away", code="broker-away", hint="Wait.", topic="shop.orders")
    error.name_pipeline("orders")
    assert error.where == {"topic": "shop.orders"}

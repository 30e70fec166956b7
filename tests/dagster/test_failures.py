"""How errors look to people in Dagster."""

from __future__ import annotations

import pytest
from dagster import DagsterExecutionInterruptedError, Failure

from assets.pipeline_asset import named_failures
from spark_jobs.config.secrets import remember, scrub
from spark_jobs.protocol.errors import OffsetsUnavailable

SECRET = "hunter2-hunter2"


def test_a_named_error_shows_message_hint_and_where_to_read_on() -> None:
    """The failure has everything an operator needs, is never retried by Dagster, and keeps secrets out."""
    remember(SECRET)
    with pytest.raises(Failure) as caught, named_failures():
        raise OffsetsUnavailable(
            f"gone with {SECRET}", code="retention-passed", hint="Open a generation.", topic="t"
        )
    failure = caught.value
    assert failure.allow_retries is False
    assert str(failure.description).endswith(
        "\nOpen a generation.\ndocs/reference/errors.md#retention-passed"
    )
    assert SECRET not in str(failure.description)
    assert failure.metadata["documentation"].value == "/docs/reference/errors.md#retention-passed"
    assert failure.metadata["topic"].value == "t"


def test_an_unexpected_error_keeps_its_traceback_and_loses_its_secrets() -> None:
    """A driver may quote the connection string: neither description, metadata nor cause shows it."""
    remember(SECRET)
    with pytest.raises(Failure) as caught, named_failures():
        raise RuntimeError(f"cannot reach postgres://me:{SECRET}@db")
    failure = caught.value
    text = f"{failure.description} {failure.metadata['traceback'].value}"
    assert "RuntimeError" in text
    assert SECRET not in text
    assert scrub(text) == text
    assert failure.__suppress_context__


def test_a_termination_is_no_failure() -> None:
    """Dagster's own interruption passes, so that a cancelled run is cancelled and not failed."""
    with pytest.raises(DagsterExecutionInterruptedError), named_failures():
        raise DagsterExecutionInterruptedError

"""What the words of a storage's error mean for the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from spark_jobs.lake.catalog import catalog_error
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.storage.errors import manifests_readable, storage_error

if TYPE_CHECKING:
    from pyiceberg.table import Table

HEAD = (
    "When reading information for key 'k' in bucket 'b': AWS Error UNKNOWN (HTTP status {}) during HeadObject"
)


class _Named:
    """As much of a table as an error tells."""

    def name(self) -> tuple[str, str]:
        """Namespace and table."""
        return ("lake", "orders")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(HEAD.format(400)), "storage-refused"),
        (OSError(HEAD.format(401)), "storage-refused"),
        (OSError(HEAD.format(403)), "storage-refused"),
        (OSError(HEAD.format(503)), "storage-failed"),
        (OSError("AWS Error ACCESS_DENIED during PutObject"), "storage-refused"),
        (OSError("AWS Error UNKNOWN (HTTP status 400): ExceptionName: ExpiredToken"), "credentials-expired"),
        (PermissionError(13, "Permission denied"), "storage-refused"),
        (OSError(28, "No space left on device"), "storage-failed"),
    ],
)
def test_a_refusal_is_no_outage(error: OSError, code: str) -> None:
    """Other rights or credentials mend the one, time the other; S3 answers HEAD with a number alone."""
    assert storage_error(error, "reading manifests").code == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FileNotFoundError(2, "No such file"), "manifest-unreadable"),
        (OSError(HEAD.format(400)), "storage-refused"),
        (OSError(HEAD.format(500)), "storage-failed"),
    ],
)
def test_a_manifest_that_is_gone_is_told_from_a_storage_that_fails(error: OSError, code: str) -> None:
    """Expiry takes manifests away beside those who read them; nothing else does."""
    with pytest.raises(SluiceError) as caught, manifests_readable(cast("Table", _Named())):
        raise error
    assert caught.value.code == code
    assert caught.value.where["table"] == "lake.orders"


@pytest.mark.parametrize("text", ["AWS Error ACCESS_DENIED", "AWS Error NETWORK_CONNECTION", "NoSuchBucket"])
def test_an_answer_of_many_lines_is_one_line(text: str) -> None:
    """Of S3's page its beginning is enough, whatever the error is named."""
    message = storage_error(OSError("\n".join([text, *["  <Detail>x</Detail>"] * 99])), "writing").message
    assert text in message
    assert "\n" not in message
    assert len(message) < 600


def test_credentials_that_ended_are_named_by_a_catalog_too() -> None:
    """Its own client hands on what the storage says; the next run gets new ones."""
    ended = OSError("AWS Error UNKNOWN (HTTP status 400): ExceptionName: ExpiredToken")
    assert catalog_error(ended, "could not load the table").code == "credentials-expired"

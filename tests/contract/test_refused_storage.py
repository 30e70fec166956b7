"""A store that refuses is told from one that is away: trying again mends only the second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.harm_proxy import Harm, HarmProxy
from spark_jobs.protocol.errors import ConfigError, RetryableError
from spark_jobs.txlog.store import TxlogStore
from tests.support.log_entries import TABLE_UUID, make_batch, offset_commit

if TYPE_CHECKING:
    from prove.lab.s3 import S3


@pytest.mark.parametrize(
    ("harm", "kind", "code"),
    [
        (Harm.DENIED, ConfigError, "log-store-refused"),
        (Harm.EXPIRED, ConfigError, "log-store-refused"),
        (Harm.ALL_503, RetryableError, "log-store-away"),
        (Harm.ALL_CUT, RetryableError, "log-store-away"),
    ],
)
def test_a_refusal_is_told_from_an_outage(s3: S3, harm: Harm, kind: type[Exception], code: str) -> None:
    """S3's refusals are errors of the set-up, whatever Arrow calls them; outages are worth a retry."""
    with HarmProxy(s3.endpoint) as proxy:
        log = TxlogStore(f"s3://{s3.bucket}/state", {**s3.pyiceberg_properties, "s3.endpoint": proxy.url})
        batch = make_batch()
        entry = offset_commit(batch)
        log.append(TABLE_UUID, batch, entry)
        proxy.suffer(harm)
        for asked in (
            lambda: log.attempts(TABLE_UUID),
            lambda: log.append(TABLE_UUID, make_batch("b"), entry),
        ):
            with pytest.raises(kind) as raised:
                asked()
            assert raised.value.code == code  # type: ignore[attr-defined]
            assert "\n" not in raised.value.message  # type: ignore[attr-defined]

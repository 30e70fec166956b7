"""One POST to a webhook: what it is signed with, and that nothing else says who sends it."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from spark_jobs.config.sections import NotifySettings
from spark_jobs.notices.notice import MAX_PARTITIONS, _touched
from spark_jobs.notices.sender import Delivery, Posted, post, receiver_of, signature
from spark_jobs.protocol.works.drain import DRAIN
from spark_jobs.protocol.works.replay import REPLAY
from tests.support.webhook_receiver import Receiver, receiving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "0123456789abcdef-signs"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "webhooks.md"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that takes everything."""
    with receiving() as started:
        yield started


def _documented() -> Callable[[str, bytes, str], bool]:
    """What docs/how-to/webhooks.md has a receiver do."""
    code = re.search(r"```python\n(import hashlib, hmac, time.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)  # noqa: S102  (our own page)
    checked: Callable[[str, bytes, str], bool] = names["is_from_sluice"]
    return checked


def test_what_is_posted_is_signed_as_the_page_checks_it(receiver: Receiver) -> None:
    """The documented receiver takes it; with another byte, key or time it does not."""
    is_from_sluice = _documented()
    assert post(receiver.url, {"id": "a", "text": "größer"}, SECRET).delivery is Delivery.DELIVERED
    ((headers, body),) = receiver.raw
    header = headers["Sluice-Signature"]
    assert headers["Content-Type"] == "application/json"
    assert is_from_sluice(header, body, SECRET)
    assert not is_from_sluice(header, body + b" ", SECRET)
    assert not is_from_sluice(header, body, SECRET + "x")
    at = int(re.fullmatch(r"t=(\d+),v1=[0-9a-f]{64}", header)[1])
    assert not is_from_sluice(header.replace(f"t={at}", f"t={at + 1}"), body, SECRET)
    assert not is_from_sluice(signature(body, SECRET, at - 400), body, SECRET)


def test_a_signature_is_the_documented_one() -> None:
    """Computed once by openssl: receivers in any language have it to compare with."""
    assert signature(b'{"id": "a"}', SECRET, 1767225600) == (
        "t=1767225600,v1=f7206ab10de5a69f2a1a735441e6d8a0d888b325130ceccdce0a18fbf264227f"
    )


def test_a_users_netrc_says_nothing_to_a_receiver(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passwords of a host are another program's; what the URL itself holds is sent."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert post(receiver.url, {"id": "a"}).delivery is Delivery.DELIVERED
    assert post(receiver.url.replace("://", "://me:mine@"), {"id": "b"}).delivery is Delivery.DELIVERED
    (plain, _), (written, _) = receiver.raw
    assert plain["Authorization"] is None
    assert plain["Sluice-Signature"] is None
    assert written["Authorization"] == "Basic " + b64encode(b"me:mine").decode()


@pytest.mark.parametrize("key", ["webhook", "trouble"])
def test_both_webhooks_are_signed_by_the_secret_that_is_written(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """One that is missing or too short is a receiver that is away: nothing goes out unsigned."""
    written = {key: SecretStr(receiver.url), "secret": SecretStr("${SLUICE_TEST_HOOK_SECRET}")}
    notify = NotifySettings(**written)
    monkeypatch.delenv("SLUICE_TEST_HOOK_SECRET", raising=False)
    missing = receiver_of(notify, key)({"id": "a"})
    monkeypatch.setenv("SLUICE_TEST_HOOK_SECRET", "")
    empty = receiver_of(notify, key)({"id": "a"})
    assert missing.delivery is empty.delivery is Delivery.AWAY
    assert "SLUICE_TEST_HOOK_SECRET" in missing.detail
    assert "notify.secret has fewer than 16 characters" in empty.detail
    assert receiver.raw == []
    monkeypatch.setenv("SLUICE_TEST_HOOK_SECRET", SECRET)
    assert receiver_of(notify, key)({"id": "a"}).delivery is Delivery.DELIVERED
    ((headers, body),) = receiver.raw
    assert _documented()(headers["Sluice-Signature"], body, SECRET)


@pytest.mark.parametrize(
    ("status", "delivery"),
    [
        (200, Delivery.DELIVERED),
        (299, Delivery.DELIVERED),
        (300, Delivery.AWAY),
        *((status, Delivery.REFUSED) for status in (400, 410, 413, 415, 422)),
        *((status, Delivery.AWAY) for status in (302, 401, 403, 404, 429, 500, 503)),
    ],
)
def test_only_what_can_never_be_taken_is_given_up(
    receiver: Receiver, status: int, delivery: Delivery
) -> None:
    """A 2xx takes it; five answers are of the body itself; all others are tried again."""
    receiver.status = status
    assert post(receiver.url, {"id": "a"}) == Posted(delivery, f"HTTP {status}")


def test_partitions_are_named_up_to_a_thousand() -> None:
    """Of more, and of rows that went, any may have changed."""
    names = {f"day={at}" for at in range(MAX_PARTITIONS)}
    assert _touched(DRAIN, names) == sorted(names)
    assert _touched(DRAIN, {*names, "day=x"}) is None
    assert _touched(REPLAY, {"day=1"}) is None

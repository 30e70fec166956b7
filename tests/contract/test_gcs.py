"""Google Cloud Storage, by fake-gcs-server: what creates an object once, and how refusals are told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from prove.lab.gcs import Gcs, gcs_at
from spark_jobs.preview.reachability import try_storage
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError
from spark_jobs.storage.create_only import CreateOnlyStore, find_files, list_files
from spark_jobs.storage.file_io import load_file_io

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITERS = 12


def log_in(gcs: Gcs) -> CreateOnlyStore:
    """A log in the bucket."""
    return CreateOnlyStore(gcs.location("log"), gcs.properties)


def test_of_writers_at_once_one_wins(gcs: Gcs) -> None:
    """A dozen writers create one object at the same moment: one is told so, and its content stays."""
    for name in ("a b/1", "ä%2F/2", "c=d+e/3"):
        writers = [log_in(gcs) for _ in range(WRITERS)]
        with ThreadPoolExecutor(WRITERS) as pool:
            created = list(
                pool.map(CreateOnlyStore.create, writers, [name] * WRITERS, map(str, range(WRITERS)))
            )
        assert created.count(True) == 1
        assert log_in(gcs).read(name) == str(created.index(True))


def zombie(gcs: Gcs) -> tuple[bool, str | None]:
    """A writer paused inside its put while another one writes; whether it won, and what stays."""
    with ThreadPoolExecutor(1) as pool, gcs.holding_back() as (is_held, let_go):
        paused = pool.submit(log_in(gcs).create, "entry", "of the zombie")
        is_held()
        assert log_in(gcs).create("entry", "of its successor")
        let_go()
        return paused.result(20), log_in(gcs).read("entry")


def test_zombie_paused_inside_a_put_does_not_win(gcs: Gcs) -> None:
    """Its put is refused by the store's comparison: without that it lands over its successor's."""
    assert zombie(gcs) == (False, "of its successor")
    assert log_in(gcs).refuses_a_second()
    replacing = gcs_at(gcs.endpoint, "replacing")
    assert zombie(replacing) == (True, "of the zombie")
    assert not log_in(replacing).refuses_a_second()


def test_files_in_folders_are_found_by_their_names(gcs: Gcs) -> None:
    """Arrow shows no folders of this store; files in them are found all the same."""
    log = log_in(gcs)
    for name in ("top-x", "a/b/deep-x", "a/other"):
        log.create(name, "")
    found = find_files(log.root, "-x", gcs.properties)
    assert sorted(file.name for file in found) == ["deep-x", "top-x"]


@pytest.mark.parametrize(
    ("permission", "act"),
    [
        ("storage.objects.create", lambda log: log.create("new", "")),
        ("storage.objects.get", lambda log: log.read("old")),
        ("storage.objects.list", lambda log: log.list("")),
        ("storage.objects.delete", lambda log: log.delete(log.list("")[0])),
    ],
)
def test_missing_permission_is_named(
    gcs: Gcs, permission: str, act: Callable[[CreateOnlyStore], object]
) -> None:
    """An account without one permission is told which one, and that the log needs it."""
    log = log_in(gcs)
    log.create("old", "")
    gcs.order(lacking=[permission])
    with pytest.raises(ConfigError, match=f"does not have {permission} access") as caught:
        act(log)
    assert caught.value.code == "log-store-refused"
    with pytest.raises(ConfigError, match=f"does not have {permission} access") as caught:
        try_storage(gcs.location("lake"), gcs.properties)
    assert caught.value.code == "storage-refused"
    assert "Storage Object User" in caught.value.hint


def test_arrows_tries_end_before_a_run_does(gcs: Gcs) -> None:
    """PyIceberg opens this store by Sluice's FileIO, in which Arrow does not ask for 15 minutes."""
    file_io = load_file_io(gcs.properties, gcs.location("lake"))
    _, (settings,) = file_io.fs_by_scheme("gs", gcs.bucket).__reduce__()
    assert settings["retry_time_limit"] == timedelta(seconds=30)


def test_ended_token_is_tried_again(gcs: Gcs) -> None:
    """A token that ended is no refusal for ever: the next run has another."""
    gcs.order(is_expired=True)
    for act in (lambda log: log.create("new", ""), lambda log: log.read("old"), lambda log: log.list("")):
        with pytest.raises(RetryableError) as caught:
            act(log_in(gcs))
        assert caught.value.code == "credentials-expired"


def test_credentials_that_cannot_be_used_are_refused(
    gcs: Gcs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of credentials that is missing or holds none is named, whatever client finds it so."""
    for content in (None, "{}"):
        file = tmp_path / "key.json"
        if content is not None:
            file.write_text(content)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        log = CreateOnlyStore(gcs.location("log"), {"gcs.service.host": gcs.endpoint})
        for act in (lambda log: log.create("new", ""), lambda log: log.read("old"), lambda log: log.list("")):
            with pytest.raises(ConfigError, match=r"key\.json") as caught:
                act(log)
            assert caught.value.code == "log-store-refused"


def test_missing_bucket_is_named(gcs: Gcs) -> None:
    """A bucket that is not there is told by name, whatever is done first."""
    log = CreateOnlyStore("gs://not-there/log", gcs.properties)
    for act in (lambda: log.create("new", ""), lambda: log.list("")):
        with pytest.raises(SluiceError, match="not-there") as caught:
            act()
        assert caught.value.code == "no-bucket"
    with pytest.raises(OSError, match="NO_SUCH_BUCKET: not-there"):
        list(list_files(log.root, gcs.properties))

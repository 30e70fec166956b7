"""The Spark session of a kind of work: its address, its isolation, and who may stop its work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from dagster import materialize
from pyspark.errors import PySparkException

from assets.tables import table_asset
from resources.sluice import Sluice, open_connections
from resources.spark import (
    PARALLELISM,
    SparkSessions,
    WorkSpark,
    _attach,
    spark_parallelism,
)
from resources.spark_shipping import ship_code
from spark_jobs.config.secrets import scrub
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig, SparkSettings
from spark_jobs.connections.spark_address import connect_url, refuse_clear
from spark_jobs.protocol.errors import ConfigError, RetryableError
from spark_jobs.spark.shipped import package_zip

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

SERVER = "sc://127.0.0.1:15002"
SECRET = b"of this installation"


def config_of(folder: Path, spark: SparkSettings) -> SluiceConfig:
    """A configuration whose only servers are Spark's."""
    return SluiceConfig(
        home=str(folder), state=str(folder / "log"), catalog=CatalogSettings(properties={}), spark=spark
    )


def test_session_ids_are_stable_per_kind_of_work() -> None:
    """The same work attaches to the same session from any process; other work does not."""
    urls = [
        connect_url(SERVER, "drain", 0, secret=SECRET),
        connect_url(SERVER, "preview", 0, secret=SECRET),
        connect_url(SERVER, "drain", 1, secret=SECRET),
    ]
    assert len(set(urls)) == 3
    assert connect_url(SERVER, "drain", 0, secret=b"of another") not in urls
    assert connect_url(SERVER, "drain", 0, secret=SECRET) == urls[0]


def test_a_session_secret_that_is_configured_needs_no_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process that is given it makes the same ids; without it one that cannot keep its own says so."""
    monkeypatch.setenv("SESSIONS", "of all machines")
    given = config_of(Path("/sys/sluice"), SparkSettings(remote=SERVER, session_secret="${SESSIONS}"))
    assert WorkSpark(given, "drain")._secret() == b"of all machines"
    assert "of all machines" not in scrub(f"{given!r} of all machines")
    with pytest.raises(ConfigError) as refused:
        WorkSpark(config_of(Path("/sys/sluice"), SparkSettings(remote=SERVER)), "drain").session()
    assert refused.value.code == "no-session-secret"


def test_parameters_of_the_configured_url_are_kept() -> None:
    """Token and TLS settings stay; a session or user of the user's own gives way to ours."""
    url = connect_url(f"{SERVER}/;use_ssl=true;session_id=x;user_id=me", "drain", 0, secret=SECRET)
    assert url.startswith(f"{SERVER}/;use_ssl=true;session_id=")
    assert url.endswith(";user_id=sluice")
    assert url.count("session_id=") == url.count("user_id=") == 1


@pytest.mark.parametrize(
    ("remote", "is_refused"),
    [
        ("sc://spark:15002", True),
        ("sc://10.0.0.7:15002/;token=t", True),
        ("sc://spark:15002/;use_ssl=false", True),
        ("sc://spark:15002/;token=t;use_ssl=true", False),
        ("sc://127.0.0.1:15002", False),
        ("sc://[::1]:15002", False),
        ("sc://localhost:15002", False),
    ],
)
def test_no_credential_goes_to_another_machine_in_clear(remote: str, *, is_refused: bool) -> None:
    """Without TLS only this machine is one to talk to; the error says both ways on, and no token."""
    if not is_refused:
        refuse_clear(remote)
        return
    with pytest.raises(ConfigError, match="unencrypted") as refused:
        refuse_clear(remote)
    assert refused.value.code == "spark-in-clear"
    assert "insecure: true" in refused.value.hint
    assert "token=t" not in str(refused.value)


def test_a_token_may_be_given_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read when it is needed, and out of everything that is said from then on; the host is shown."""
    monkeypatch.setenv("SPARK_TOKEN", "hunter2-of-spark")
    monkeypatch.setenv("SPARK_HOST", "spark.example.com")
    remote = "sc://${SPARK_HOST}:15002/;use_ssl=true;token=${SPARK_TOKEN}"
    spark = WorkSpark(config_of(tmp_path, SparkSettings(remote=remote)), "drain")
    assert spark.remote == "sc://spark.example.com:15002/;use_ssl=true;token=hunter2-of-spark"
    assert scrub(spark.remote) == "sc://spark.example.com:15002/;use_ssl=true;token=***"


def test_a_remote_that_is_no_connect_url_is_refused() -> None:
    """A master put where the Connect URL belongs is named, with where it goes."""
    with pytest.raises(ConfigError, match=r"spark\.master"):
        connect_url("spark://host:7077", "drain", 0, secret=SECRET)


def test_a_server_that_is_away_is_one_clear_line_at_once(tmp_path: Path) -> None:
    """Nobody listens: a retryable error within seconds, where PySpark alone would try for minutes."""
    spark = WorkSpark(config_of(tmp_path, SparkSettings(remote="sc://127.0.0.1:1")), "drain")
    with pytest.raises(RetryableError, match="does not answer") as caught:
        spark.session()
    assert caught.value.code == "spark-away"
    spark.interrupt("an-attempt")


def test_stopping_work_starts_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session in this process that nobody made has no work, and its start takes seconds."""
    started: list[WorkSpark] = []
    monkeypatch.setattr("resources.spark._sessions", {})
    monkeypatch.setattr(WorkSpark, "_local", lambda spark: started.append(spark))  # noqa: PLW0108  (no method)
    spark = WorkSpark(config_of(tmp_path, SparkSettings(master="local")), "drain")
    spark.interrupt("an-attempt")
    assert not started
    spark.session()
    assert started == [spark]


def test_what_could_not_be_stopped_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By gRPC's own words, whose errors are objects of five lines as text, or by the error's."""

    class RpcError(Exception):
        def details(self) -> str:
            return "failed to connect\nto all addresses"

    spark = WorkSpark(config_of(tmp_path, SparkSettings(remote="sc://127.0.0.1:1")), "drain")
    for error in (RpcError("<_InactiveRpcError of RPC that terminated with:\n\tstatus>"), OSError("no\nway")):
        monkeypatch.setattr(WorkSpark, "session", Mock(side_effect=error))
        spark.interrupt("an-attempt")
    told = [record.getMessage().partition("could not be stopped: ")[2] for record in caplog.records]
    assert told == ["failed to connect to all addresses", "no way"]


@pytest.mark.parametrize(("master", "expected"), [("local[3,4]", 3), ("local[7]", 7)])
def test_parallelism_follows_the_master(tmp_path: Path, master: str, expected: int) -> None:
    """Splits are planned for as many tasks as run at once."""
    assert spark_parallelism(config_of(tmp_path, SparkSettings(master=master))) == expected


def test_parallelism_of_a_cluster_is_what_the_configuration_says(tmp_path: Path) -> None:
    """A larger cluster than this machine is used whole; without a word the machine's processors count."""
    remote = SparkSettings(remote=SERVER, conf={PARALLELISM: "64"})
    assert spark_parallelism(config_of(tmp_path, remote)) == 64
    assert spark_parallelism(config_of(tmp_path, SparkSettings(remote=SERVER))) == os.cpu_count()


def test_shipped_code_is_the_same_for_the_same_sources(tmp_path: Path) -> None:
    """A session that holds the zip already accepts it again: same name, same bytes."""
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    one, two = package_zip(first), package_zip(second)
    assert (one.name, one.read_bytes()) == (two.name, two.read_bytes())


@pytest.mark.parametrize(("refusals", "is_taken"), [(0, True), (1, True), (3, True), (9, False)])
def test_code_that_another_process_ships_at_the_same_time_is_offered_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusals: int, is_taken: bool
) -> None:
    """A server that refuses it for a moment has it in the end; one that always does is away."""
    offers: list[str] = []

    class Busy:
        def addArtifacts(self, path: str, *, pyfile: bool) -> None:  # noqa: N802  (PySpark's name)
            assert pyfile
            offers.append(path)
            if len(offers) <= refusals:
                raise PySparkException("Application error processing RPC")

    monkeypatch.setattr("resources.spark_shipping.SHIPPING_PAUSES_SECONDS", (0.0, 0.0, 0.0))
    code = tmp_path / "code.zip"
    if is_taken:
        ship_code(Busy(), code, SERVER)
    else:
        with pytest.raises(RetryableError) as caught:
            ship_code(Busy(), code, SERVER)
        assert caught.value.code == "spark-away"
    assert offers == [str(code)] * min(refusals + 1, 4)


def test_a_run_uses_the_sessions_that_dagster_injects(tmp_path: Path) -> None:
    """The resource `spark` decides where a run's sessions come from; nothing makes one past it."""
    requested: list[str] = []

    class Refusing(SparkSessions):
        def of(self, kind: str) -> WorkSpark:
            requested.append(kind)
            raise ConfigError("no session here", code="no-session", hint="None.")

    config = config_of(tmp_path, SparkSettings(remote=SERVER))
    pipeline = PipelineConfig(name="a", topic="a", table="lake.a")
    run = materialize(
        [table_asset(pipeline)],
        resources={"sluice": Sluice(config), "spark": Refusing(config)},
        raise_on_error=False,
    )
    assert not run.success
    assert requested == ["drain"]


@pytest.mark.spark
def test_every_session_is_made_by_dagster_pyspark(
    drains: tuple[WorkSpark, WorkSpark], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first session of a process and each later one come out of its resource."""
    from dagster_pyspark import LazyPySparkResource

    from resources.spark_session import SparkSessionResource

    made: list[object] = []
    make = SparkSessionResource._init_session

    def _init_session(resource: SparkSessionResource) -> None:
        make(resource)
        made.append(resource._spark_session)

    monkeypatch.setattr(SparkSessionResource, "_init_session", _init_session)
    assert issubclass(SparkSessionResource, LazyPySparkResource)
    sessions = [spark.session() for spark in drains]
    assert made == sessions


@pytest.fixture
def drains(spark_remote: str, tmp_path: Path) -> tuple[WorkSpark, WorkSpark]:
    """The session of drains, and that of another kind of work, in this process, of a test's own."""
    config = config_of(tmp_path, SparkSettings(remote=spark_remote))
    return WorkSpark(config, "drain"), WorkSpark(config, "replay")


@pytest.mark.spark
def test_pipelines_share_a_session_and_each_is_stopped_alone(drains: tuple[WorkSpark, WorkSpark]) -> None:
    """Work of one attempt is stopped by its tag; another's in the same session goes on to its end."""
    session = drains[0].session()
    assert WorkSpark(drains[0].config, "drain").session() is session
    assert drains[1].session().session_id != session.session_id
    with ThreadPoolExecutor(2) as pool:
        stopped = pool.submit(_sleep_on_spark, session, "attempt-1")
        left = pool.submit(_sleep_on_spark, session, "attempt-2", 8.0)
        while not stopped.done():
            drains[0].interrupt("attempt-1")
            time.sleep(0.5)
        assert stopped.exception() is not None
        assert left.exception(timeout=60) is None


@pytest.mark.spark
def test_two_lakes_never_meet_in_one_session(
    spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upkeep of two lakes begins on one server at once: asking a session which catalog it has is too late."""
    asked: list[str] = []

    def attach(url: str, conf: dict[str, str], remote: str) -> SparkSession:
        asked.append(url)
        return _attach(url, conf, remote)

    monkeypatch.setattr("resources.spark._attach", attach)
    for name in ("one", "two"):
        uri = f"sqlite:///{tmp_path / name}.db"
        config = config_of(tmp_path, SparkSettings(remote=spark_remote)).model_copy(
            update={"catalog": CatalogSettings(properties={"type": "sql", "uri": uri})}
        )
        WorkSpark(config, "upkeep").session()
    assert len(asked) == len(set(asked)) == 2


@pytest.mark.spark
def test_work_of_another_process_can_be_stopped(drains: tuple[WorkSpark, WorkSpark]) -> None:
    """An operation tagged with its attempt ends within seconds of an interrupt through the stable session."""
    session = drains[0].session()
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        sleeping = pool.submit(_sleep_on_spark, session, "attempt-1")
        while not sleeping.done() and time.monotonic() - started < 30:
            drains[0].interrupt("attempt-1")
            time.sleep(0.5)
        assert sleeping.exception() is not None
    assert time.monotonic() - started < 30


@pytest.mark.spark
def test_work_that_is_cut_short_is_stopped(spark_remote: str, tmp_path: Path) -> None:
    """A termination inside a run's work ends the Spark operation of its attempt, which nobody waits for."""
    config = config_of(tmp_path, SparkSettings(remote=spark_remote))
    config = config.model_copy(update={"kafka": {"bootstrap.servers": "127.0.0.1:1"}})
    started: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            _cut_short(config, tmp_path.name, pool, started)
        assert started[0].exception(timeout=30) is not None


@pytest.mark.spark
def test_a_session_the_server_forgot_is_replaced(drains: tuple[WorkSpark, WorkSpark]) -> None:
    """A server refuses a closed session's id for ever: the next one is taken, and the process still ends."""
    first = drains[1].session()
    first._client.release_session()
    again = WorkSpark(drains[1].config, drains[1].kind)
    code = (
        "import sys; from pathlib import Path; from spark_jobs.config.settings import *;"
        "from resources.spark import WorkSpark;"
        "from tests.dagster.test_spark_access import config_of;"
        "config = config_of(Path(sys.argv[1]), SparkSettings(remote=sys.argv[2]));"
        "print(WorkSpark(config, sys.argv[3]).session().session_id)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, again.config.home, str(again.remote), again.kind],
        env={**os.environ, "SPARK_REMOTE": "sc://nowhere:1", "SPARK_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert shown.stdout.strip() not in ("", first.session_id)


def _cut_short(
    config: SluiceConfig, pipeline: str, pool: ThreadPoolExecutor, started: list[Future[None]]
) -> None:
    """What a run looks like that is terminated while its tasks are at work."""
    with open_connections(config, pipeline, kind="drain", actor="test", run_id="r") as connections:
        session, attempt = connections.spark(), connections.new_attempt()
        session.range(1).count()
        started.append(pool.submit(_sleep_on_spark, session, attempt))
        time.sleep(2)
        raise KeyboardInterrupt


def _sleep_on_spark(session: SparkSession, tag: str, seconds: float = 60.0) -> None:
    """Keep a task busy, tagged for this thread."""

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(seconds)
        yield from batches

    session.addTag(tag)
    session.range(1).mapInArrow(slow, "id long").collect()


def test_a_jvm_that_ends_while_starting_is_told_with_its_last_words_and_its_log(tmp_path: Path) -> None:
    """What it printed went to that file alone.

    In a process of its own, as a run has: PySpark forks to start a JVM, and gRPC's handlers, where one of its
    threads waits, abort one such fork of a hundred before it has become anything.
    """
    log_path = tmp_path / "logs" / "spark-local.log"
    code = (
        "import sys; from pathlib import Path; from resources.spark import _launch;"
        "_launch({}, Path(sys.argv[1]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(log_path)],
        env={**os.environ, "JAVA_HOME": "/no/such/java"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    told = ended.stderr.splitlines()[-1]
    assert re.search(
        r"RetryableError: .*stopped while it was starting.*spark-class.*\[server-start\]", told
    ), ended.stderr
    assert str(log_path) in told
    assert "/no/such/java" in log_path.read_text()

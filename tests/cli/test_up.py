"""A real `up`: what can be done beside it, and that it ends whole."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from bench.footprint import usage
from cli.commands.up import _as_it_is_now
from cli.stand import running
from cli.stand.run_record import read_up
from cli.stand.running import Mending, Servers, servers_of, stop_left_over
from prove.lab.kafka_server import unique_name
from servers.code_server import CodeServer
from servers.dagster import DagsterServers, DagsterSettings
from servers.kafka import KafkaServer, KafkaSettings
from servers.process import ServerProcess, free_ports, is_listening
from servers.runs import RunResident
from servers.spark_connect import SparkConnectServer, SparkConnectSettings
from spark_jobs.config.file import load_config
from spark_jobs.connections.endpoints import Endpoints, read_endpoints, write_endpoints
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.protocol.errors import CommitConflict

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker
    from tests.cli.conftest import Sluice

STOP_SECONDS = 15
SCRAPE_SECONDS = 60
JSON = {"Content-Type": "application/json"}
STATUS = '{runOrError(runId: "%s") {... on Run {status}}}'
TOLD_APART = {
    *("Dagster's code server", "Dagster's daemon", "Dagster's webserver"),
    *("metrics, catalog and states", "Spark's server", "up itself"),
}
FROM_ELSEWHERE = [
    (403, {**JSON, "Origin": "http://evil.example"}),
    (403, {**JSON, "Host": "evil.example"}),
    (415, {"Content-Type": "text/plain"}),
]


def recorded_pids(home: Path) -> dict[str, int]:
    """The processes `up` started, by name."""
    records = (home / "run").glob("*.json")
    return {
        r.stem: json.loads(r.read_text())["pid"] for r in records if r.stem not in {"endpoints", "topics"}
    }


def runs(pid: int) -> bool:
    """Whether the process exists; none of these is a child of the test's."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ignores_interrupts(pid: int) -> bool:
    """Whether the process was started with SIGINT ignored and left it so."""
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn:"))
    return bool(int(ignored.split()[1], 16) & 1 << (signal.SIGINT - 1))


def printed_address(printed: Path, what: str) -> str:
    """The address that `up` printed for one of its servers."""
    found = re.search(rf"{what} +(http://\S+)", printed.read_text())
    assert found is not None
    return found[1]


def asked(ui: str, headers: dict[str, str]) -> int:
    """Ask to stop a sensor; return the status."""
    body = json.dumps({"query": 'mutation{stopSensor(id:"x"){__typename}}'}).encode()
    request = urllib.request.Request(f"{ui}/graphql", body, headers)  # noqa: S310  (our own)
    try:
        with urllib.request.urlopen(request, timeout=SCRAPE_SECONDS) as answer:  # noqa: S310  (our own)
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def answered(ui: str, query: str) -> Any:
    """Ask as the UI's page does."""
    headers = {**JSON, "Origin": ui}
    request = urllib.request.Request(f"{ui}/graphql", json.dumps({"query": query}).encode(), headers)  # noqa: S310  (our own)
    with urllib.request.urlopen(request, timeout=SCRAPE_SECONDS) as answer:  # noqa: S310  (our own)
        return json.load(answer)["data"]


def materialize(ui: str, table: str) -> None:
    """Materialize a table as the UI does, and wait for its run."""
    drain = 'repositoryLocationName: "sluice", repositoryName: "__repository__", jobName: "drain"'
    selector = f'{drain}, assetSelection: [{{path: ["lake", "{table}"]}}]'
    asked_for = f'executionParams: {{selector: {{{selector}}}, runConfigData: "{{}}"}}'
    told = answered(ui, f"mutation{{launchRun({asked_for}){{... on LaunchRunSuccess{{run{{runId}}}}}}}}")
    run = told["launchRun"]["run"]["runId"]
    deadline = time.monotonic() + SCRAPE_SECONDS
    while (status := answered(ui, STATUS % run)["runOrError"]["status"]) != "SUCCESS":
        assert status not in {"FAILURE", "CANCELED"}
        assert time.monotonic() < deadline, status
        time.sleep(0.2)


def put_to_sleep(home: Path) -> None:
    """Let `up` see that nothing used Spark for long, as soon as nothing uses it."""
    deadline = time.monotonic() + SCRAPE_SECONDS
    while not read_endpoints(str(home)).spark_asleep:
        os.utime(home / "run" / "spark.lock", (0, 0))
        assert time.monotonic() < deadline
        time.sleep(0.2)


def scraped(printed: Path, what: str, path: str = "") -> str:
    """What a server tells whose address `up` printed, once it answers."""
    address = printed_address(printed, what) + path
    deadline = time.monotonic() + SCRAPE_SECONDS
    while True:
        try:
            with urllib.request.urlopen(address, timeout=SCRAPE_SECONDS) as answer:  # noqa: S310  (our own)
                return str(answer.read().decode())
        except OSError:  # URLError, or TimeoutError where the answer itself is slow
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.mark.kafka
@pytest.mark.spark
def test_up_is_refused_twice_answers_beside_and_stops_from_elsewhere(
    sluice_up: subprocess.Popen[str], up_home: Path, sluice: Sluice
) -> None:
    """One `up` a state folder; over TLS, and while Spark sleeps, others work beside it; `down` ends it."""
    record = read_up(str(up_home))
    assert record is not None
    assert record.pid == sluice_up.pid
    for command in (["up"], ["demo"], ["reset", "--yes"]):
        refused = sluice(*command, home=up_home)
        assert refused.returncode == 78
        assert str(record.pid) in refused.stderr

    pids = recorded_pids(up_home)
    servers = {"kafka", "spark-connect", "sample-stream", "watch", "serve"}
    servers |= {"dagster-daemon", "dagster-webserver", "dagster-code-sluice", "sluice-runs"}
    assert set(pids) == servers
    assert {name for name, pid in pids.items() if ignores_interrupts(pid)} == {"sample-stream"}
    told = scraped(up_home.parent / "up.out", "metrics")
    assert "GET /v1/{prefix}/namespaces" in scraped(up_home.parent / "up.out", "catalog server", "/v1/config")
    assert 'sluice_pipeline_readable{pipeline="flights"} 1.0' in told
    until = time.monotonic() + 2
    watched = usage((sluice_up.pid,), lambda: time.monotonic() >= until)
    assert set(watched.bytes_by_kind) >= TOLD_APART
    assert watched.cores > 0
    ui = printed_address(up_home.parent / "up.out", "Dagster UI")
    assert answered(ui, "{version}")
    for refused_with, headers in FROM_ELSEWHERE:
        assert asked(ui, headers) == refused_with
    with pytest.raises(InvalidStatus):
        connect(ui.replace("http", "ws") + "/graphql", origin=Origin("http://evil.example"))
    put_to_sleep(up_home)
    checked = sluice("check", "flights", home=up_home)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "FAIL" not in checked.stdout
    assert "the broker's certificate expires in 364 days" in checked.stdout
    password = read_endpoints(str(up_home)).kafka_login["sasl.password"]
    assert password not in (up_home.parent / "up.out").read_text() + checked.stdout + checked.stderr

    seen = sluice("status", "--json", home=up_home)
    states = {p["pipeline"]: p["state"] for p in json.loads(seen.stdout.splitlines()[-1])["pipelines"]}
    assert set(states) == {"flights", "weather"}
    assert set(states.values()) <= {"new", "behind", "caught-up"}
    materialize(ui, "flights")
    put_to_sleep(up_home)
    began = time.monotonic()
    assert sluice("down", home=up_home).returncode == 0
    assert time.monotonic() - began < STOP_SECONDS
    assert sluice_up.wait(STOP_SECONDS) == 0
    assert not [name for name, pid in pids.items() if runs(pid)]
    assert "nothing was running" in sluice("down", home=up_home).stdout

    kept = subprocess.run(["ls", str(up_home)], capture_output=True, text=True, check=True).stdout
    assert "kafka" in kept
    assert sluice("reset", "--yes", home=up_home).returncode == 0
    assert not up_home.exists()


def test_the_daemon_ends_before_what_its_runs_are_started_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that it takes from its queue meanwhile would fail."""
    ended: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def stop(self, _: float) -> None:
            time.sleep(0.05 if self.name == running.DAEMON else 0)
            ended.append(self.name)

    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    (tmp_path / "sluice.yaml").write_text("version: 1\n")
    servers = Servers(load_config(tmp_path / "sluice.yaml"))
    names = (running.RUNS, running.CODE, running.DAEMON)
    servers.processes = {name: cast("ServerProcess", Named(name)) for name in names}
    servers.stop()
    assert ended[0] == running.DAEMON
    assert set(ended) == set(names)


def test_a_changed_configuration_is_followed_and_one_with_mistakes_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dagster is told of a change once; mistakes are named, and everything goes on as it was."""
    file, reloads = tmp_path / "sluice.yaml", []
    monkeypatch.setenv("SLUICE_CONFIG", str(file))
    monkeypatch.setattr(Servers, "reload", lambda _: reloads.append(1))

    def write(*names: str) -> None:
        named = "".join(f"  {name}: {{topic: {name}, table: lake.{name}}}\n" for name in names)
        file.write_text(f"version: 1\npipelines:\n{named}")

    write("first")
    config = load_config()
    servers = Servers(config)
    assert _as_it_is_now(servers, config) == config
    assert not reloads
    write("first", "second")
    config = _as_it_is_now(servers, config)
    assert ([one.name for one in config.pipelines], len(reloads)) == (["first", "second"], 1)
    file.write_text("version: 1\npipelines: {first: {}}\n")
    assert _as_it_is_now(servers, config) == config
    assert len(reloads) == 1
    assert "pipelines.first" in capsys.readouterr().err


def test_the_catalog_is_served_beside_the_rest_where_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends is started again, but where another took over; `down` finds what a killed `up` left."""
    (port,) = free_ports(1)
    file = tmp_path / "sluice.yaml"
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    file.write_text("version: 1\nmetrics: {listen: off}\n")
    with servers_of(load_config(file)) as nothing_served:
        assert nothing_served.start_beside() == {}
    address = f"127.0.0.1:{port}"
    file.write_text(f"version: 1\nmetrics: {{listen: off}}\ncatalog_server: {{listen: '{address}'}}\n")
    monkeypatch.setenv("SLUICE_CONFIG", str(file))
    config = load_config(file)
    servers = Servers(config)
    assert servers.start_beside() == {"catalog": f"http://{address}"}
    process = servers.processes["watch"]
    process.wait_until(lambda: is_listening(port), SCRAPE_SECONDS)
    with urllib.request.urlopen(f"http://{address}/v1/namespaces", timeout=SCRAPE_SECONDS) as answer:
        assert json.load(answer)["namespaces"] == []
    process.kill()
    servers.mend()
    assert f"catalog server restarted at http://{address}: it had ended" in capsys.readouterr().out
    process = servers.processes["watch"]
    process.wait_until(lambda: is_listening(port), SCRAPE_SECONDS)
    assert stop_left_over(config) == ["watch"]
    process.wait_until(lambda: not process.is_running, STOP_SECONDS)  # its threads end a moment later
    assert not is_listening(port)
    servers.mend()
    assert servers.processes["watch"] is process  # it was started again a moment ago
    monkeypatch.setattr(ServerProcess, "exit_code", CommitConflict.exit_code)
    servers.mend()
    assert "catalog server stopped: another process has taken over" in capsys.readouterr().out
    assert not servers.processes


def test_what_ended_is_started_again_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By equal settings, and beside the others, which run on; one that goes on ending is told of."""
    started: list[KafkaSettings | SparkConnectSettings] = []
    monkeypatch.setattr(running, "lake_jar_sets", lambda _: ("spark",))

    def start_kafka(settings: KafkaSettings) -> KafkaServer:
        started.append(settings)
        process = ServerProcess(settings.folder, ["sleep", "60"], dict(os.environ))
        return KafkaServer(f"127.0.0.1:{settings.port}", process)

    def start_spark(settings: SparkConnectSettings) -> SparkConnectServer:
        started.append(settings)
        return SparkConnectServer("sc://x", ServerProcess(settings.folder, ["sleep", "60"], dict(os.environ)))

    monkeypatch.setattr(running, "start_kafka", start_kafka)
    monkeypatch.setattr(running, "start_spark_connect", start_spark)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "Home"))
    (tmp_path / "sluice.yaml").write_text("version: 1\n")
    config = load_config(tmp_path / "sluice.yaml")
    now = 1000.0
    servers = Servers(config, mending=Mending(now=lambda: now))
    try:
        servers.start_backends()
        first, kafka = servers.processes["spark-connect"], servers.processes["kafka"]
        for _ in range(3):
            servers.processes["spark-connect"].kill()
            servers.mend()
            assert servers.processes["spark-connect"].is_running
            now += 31
        assert kafka.is_running
        assert servers.processes["spark-connect"] is not first
        assert len({repr(each) for each in started if isinstance(each, SparkConnectSettings)}) == 1
        assert "spark-connect keeps failing" in capsys.readouterr().out
        failing = read_endpoints(config.home).trouble
        assert failing is not None
        assert "spark-connect of `./sluice up`" in failing.message
        assert failing.hint == f"Read its log: {servers.folder('spark-connect').log_path}."
        now += 300
        servers.mend()
        assert read_endpoints(config.home).trouble is None
    finally:
        servers.stop()


def test_a_code_server_whose_socket_is_gone_is_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No sensor could tick any more, though all run; of Dagster's servers two that end are one start."""
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    (tmp_path / "sluice.yaml").write_text("version: 1\n")
    socket, starts = tmp_path / "socket", []

    def start_dagster(_settings: DagsterSettings) -> DagsterServers:
        socket.touch()
        starts.append(1)
        names = (running.DAEMON, running.WEBSERVER, running.CODE, running.RUNS)
        daemon, web, code, runs = (
            ServerProcess(servers.folder(name), ["sleep", "60"], dict(os.environ)) for name in names
        )
        served = (CodeServer("sluice", code, socket),)
        return DagsterServers("http://x:1", daemon, web, served, RunResident(runs, socket), 0)

    monkeypatch.setattr(running, "start_dagster", start_dagster)
    servers = Servers(load_config(tmp_path / "sluice.yaml"))
    try:
        servers.start_dagster(1)
        servers.mend()
        socket.unlink()
        servers.mend()
        assert socket.exists()
        assert "restarting dagster-code-sluice: its socket was missing" in capsys.readouterr().out
        for name in (running.DAEMON, running.WEBSERVER, running.RUNS):
            servers.processes[name].kill()
        servers.mend()
        assert (len(starts), all(each.is_running for each in servers.processes.values())) == (3, True)
    finally:
        servers.stop()


def test_a_server_that_goes_on_ending_is_started_rarely() -> None:
    """At once, half a minute later, and after three times in ten minutes every five minutes."""
    clock = [0]
    mending = Mending(now=lambda: clock[-1])

    def is_started(at: int) -> bool:
        clock.append(at)
        return mending.may_start("spark-connect")

    starts = [at for at in range(1500) if is_started(at)]
    assert starts == [0, 30, 60, 360, 660, 960, 1260]
    assert mending.failing == {"spark-connect"}


def test_the_embedded_broker_has_the_topics_of_the_gateway(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else makes topics there: what is configured over it runs as it is."""
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    topic = unique_name("clicks")
    (tmp_path / "sluice.yaml").write_text(
        f"version: 1\ngateway: {{streams: {{clicks: {{topic: {topic}}}}}}}\n"
    )
    config = load_config(tmp_path / "sluice.yaml")
    write_endpoints(config.home, Endpoints(kafka_bootstrap_servers=str(kafka)))
    monkeypatch.setattr("cli.stand.sample_data.SAMPLE_PARTITIONS", {})
    monkeypatch.setattr(running, "ServerProcess", lambda *_: None)
    Servers(config).start_stream()
    assert len(KafkaAdmin({"bootstrap.servers": str(kafka)}).source_state(topic).end) == 4


def test_what_lost_its_usual_port_to_another_is_served_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that start at once both find it free; who binds it later moves, says where to, and goes on."""
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    (tmp_path / "sluice.yaml").write_text("version: 1\n")
    servers = Servers(load_config(tmp_path / "sluice.yaml"))
    usual = urlsplit(servers.start_beside()["metrics"])
    try:
        with socket.create_server((str(usual.hostname), usual.port or 0)):
            first = servers.processes["watch"]
            deadline = time.monotonic() + SCRAPE_SECONDS
            while first.is_running and time.monotonic() < deadline:
                time.sleep(0.05)
            servers.mend()
            moved = servers.beside["watch"].urls["metrics"]
            assert f"restarted at {moved}: " in capsys.readouterr().out
            port = urlsplit(moved).port or 0
            servers.processes["watch"].wait_until(lambda: is_listening(port), SCRAPE_SECONDS)
    finally:
        servers.stop()

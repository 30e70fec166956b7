"""What a person sees when something is not there: one line, a hint, an exit code, no traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prove.lab.registry_stand_in import RegistryStandIn, basic
from servers.process import free_ports

if TYPE_CHECKING:
    from tests.cli.conftest import Sluice


def configuration(tmp_path: Path, servers: str, topic: str = "orders") -> str:
    """A configuration with a broker of its own."""
    file = tmp_path / "own.yaml"
    pipelines = f"pipelines:\n  orders: {{topic: {topic}, table: lake.orders}}\n"
    file.write_text(f"version: 1\nkafka:\n  bootstrap.servers: {servers}\n{pipelines}")
    return str(file)


@pytest.mark.parametrize("command", [["drain", "flights"], ["audit", "flights"], ["recover"]])
def test_no_broker_is_one_line_and_a_hint(sluice: Sluice, command: list[str]) -> None:
    """Without any broker a command names `./sluice up` and the setting."""
    done = sluice(*command)
    assert done.returncode == 78
    assert "docs/reference/errors.md#no-broker" in done.stderr
    assert "./sluice up" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [["query", "flights", "SELECT 1"], ["history", "flights"]])
def test_the_lake_can_be_read_without_a_broker(sluice: Sluice, command: list[str]) -> None:
    """What is asked for is the table, and that is what is missing here."""
    done = sluice(*command)
    assert "no-broker" not in done.stderr
    assert "no-table-yet" in done.stderr or "no batches yet" in done.stdout, done.stdout + done.stderr


def test_status_without_up_says_stopped_and_what_to_type(sluice: Sluice) -> None:
    """The embedded broker down is a state, not a crash, and needs a person."""
    done = sluice("status", "--json")
    assert done.returncode == 1
    pipelines = json.loads(done.stdout.splitlines()[-1])["pipelines"]
    assert {(p["state"], p["type"]) for p in pipelines} == {("stopped", "./sluice up")}


def test_what_does_not_answer_is_named(
    sluice: Sluice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` and `drain` name the address; `check` goes on, without starting Spark, to each registry."""
    servers = f"127.0.0.1:{free_ports(1)[0]}"
    own = configuration(tmp_path, servers)
    drained = sluice("drain", "orders", "--config", own)
    assert drained.returncode == 75
    assert servers in drained.stderr
    monkeypatch.setenv("SLUICE_TEST_PASSWORD", "hunter2-Tr0ub4dor")
    auth = '{basic: "me:${SLUICE_TEST_PASSWORD}"}'
    with RegistryStandIn(wanted=basic("me", "hunter2-Tr0ub4dor")) as registry:
        lines = [
            f"  open: {{url: '{registry.url}', auth: {auth}}}",
            f"  closed: {{url: '{registry.url}', auth: {{bearer: other-token}}}}",
            f"  away: {{url: 'http://{servers}', auth: {auth}}}",
        ]
        with Path(own).open("a") as written:
            written.write("\n".join(["registries:", *lines, ""]))
        checked = sluice("--config", own, "check")
    assert checked.returncode == 1
    assert "FAIL  broker" in checked.stdout
    assert "ok    catalog" in checked.stdout
    assert re.search(r"ok    registry open .*answers requests as user me, 0 schemas stored\n", checked.stdout)
    assert re.search(r"FAIL  registry closed .*denied a request with a token \(HTTP 401\)", checked.stdout)
    assert re.search(r"FAIL  registry away .*it does not answer", checked.stdout)
    assert "skip  orders: topic" in checked.stdout
    assert "skip  Spark" in checked.stdout
    assert checked.stdout.endswith("8 checks, 3 failed, 3 skipped\n")
    assert not re.search("hunter2|other-token", checked.stdout + checked.stderr)


@pytest.mark.kafka
def test_a_missing_topic_is_named(sluice: Sluice, tmp_path: Path, kafka: str, topic_name: str) -> None:
    """Draining a topic that is not there says so, with exit code 78."""
    done = sluice("drain", "orders", "--config", configuration(tmp_path, kafka, topic_name))
    assert done.returncode == 78, done.stderr
    assert f"the topic {topic_name} does not exist" in done.stderr


def test_an_unknown_pipeline_lists_those_there_are(sluice: Sluice) -> None:
    """A mistyped pipeline name is answered with the configured ones."""
    done = sluice("drain", "flihgts")
    assert done.returncode == 78
    assert "flights, weather" in done.stderr


def test_reset_refuses_a_folder_that_is_not_its_own(sluice: Sluice, tmp_path: Path) -> None:
    """A mistyped SLUICE_HOME does not cost anybody a folder."""
    home = tmp_path / "documents"
    home.mkdir()
    (home / "thesis.txt").write_text("years of work")
    done = sluice("reset", "--yes", home=home)
    assert done.returncode == 78
    assert "thesis.txt" in done.stderr
    assert (home / "thesis.txt").exists()


def test_a_page_without_a_login_is_not_opened_to_others_unasked(sluice: Sluice, tmp_path: Path) -> None:
    """Nothing is started; the hint names the tokens, the proxy and the switch."""
    (tmp_path / "sluice.yaml").write_text("version: 1\nui: {listen: 10.0.0.7:3000}\n")
    refused = sluice("up")
    assert refused.returncode == 78
    assert "docs/reference/errors.md#listener-without-tokens" in refused.stderr
    assert "--insecure" in refused.stderr


def test_tls_is_made_for_no_broker_but_our_own(sluice: Sluice, tmp_path: Path) -> None:
    """Beside a broker of the configuration's the option would do nothing, silently."""
    refused = sluice("up", "--tls", "--config", configuration(tmp_path, "broker:9092"))
    assert refused.returncode == 78
    assert "docs/reference/errors.md#tls-of-another" in refused.stderr

"""What stands in ``packaging/``: judged by the tools that would read it, as far as they are here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from dagster_postgres.utils import pg_url_from_config
from sqlalchemy import create_engine
from starlette.applications import Starlette

from bootstrap.places import ROOT, lock_path
from bootstrap.sbom import bill_of_materials
from cli.app import main
from servers.browser_guard import BrowserGuard
from servers.dagster import INSTANCE_SETTINGS
from servers.listener import guard_of
from spark_jobs.config.file import load_config
from spark_jobs.config.listener import UiSettings

PACKAGING = ROOT / "packaging"
UNITS = sorted((PACKAGING / "systemd").glob("*.service"))
# Postgres's own, and what a container is told of its disk.
OF_CONTAINERS = {"storage", "local_artifact_storage", "compute_logs"}


def read(name: str) -> Any:
    """A YAML file of the folder."""
    return yaml.safe_load((PACKAGING / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    """``systemd-analyze verify`` finds nothing; where there is none, each line is at least one of a unit."""
    program = "/opt/sluice/bin/sluice"
    text = unit.read_text()
    assert f"ExecStart={program} " in text
    assert "\nLimitNOFILE=65536\n" in text  # a connection takes one each
    tool = shutil.which("systemd-analyze")
    if tool is None:
        parser = RawConfigParser(strict=False)
        parser.read_string(text)
        assert parser.sections() == ["Unit", "Service", "Install"], "parsed only: there is no systemd-analyze"
        return
    # The program has to be there for it.
    copy = tmp_path / unit.name.replace("@", "@orders")
    copy.write_text(text.replace(program, sys.executable))
    verified = subprocess.run([tool, "verify", copy], capture_output=True, text=True, check=False)
    assert (verified.returncode, [line for line in verified.stderr.splitlines() if copy.name in line]) == (
        0,
        [],
    )


def test_a_command_by_hand_has_what_the_unit_has(tmp_path: Path) -> None:
    """The user, the secrets' file and the folders, by ``systemd-run``."""
    stub = tmp_path / "systemd-run"
    stub.write_text('#!/bin/sh\nfor each; do echo "$each"; done\n')
    stub.chmod(0o755)
    typed = [PACKAGING / "systemd" / "sluice-of", "orders", "query", "orders", "SELECT 1"]
    done = subprocess.run(
        typed, capture_output=True, text=True, check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}
    )
    given = [line.removeprefix("--property=") for line in done.stdout.splitlines() if "--property" in line]
    unit = (PACKAGING / "systemd" / "sluice-up@.service").read_text().replace("%i", "orders")
    assert set(given) <= set(unit.splitlines())
    assert {"EnvironmentFile=-/etc/sluice/orders.env", "Environment=XDG_CACHE_HOME=/var/cache/sluice"} <= set(
        given
    )
    assert done.stdout.splitlines()[-4:] == ["/opt/sluice/bin/sluice", "query", "orders", "SELECT 1"]


def test_the_compose_file_starts_programs_that_the_image_has() -> None:
    """Every service of ours is read-only but for ``/tmp``, without rights, and mounts what stands beside."""
    compose = read("compose/compose.yaml")
    ours = {name: each for name, each in compose["services"].items() if name != "database"}
    assert set(ours) == {"code", "daemon", "webserver", "metrics"}
    for service in ours.values():
        assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, ["/tmp"], ["ALL"])
        assert service["image"].startswith("${SLUICE_IMAGE:?")
        assert shutil.which(service["command"][0], path=str(Path(sys.executable).parent)) or (
            service["command"][0] == "sluice"
        )
        mounted = {volume.split(":")[0].removeprefix("./") for volume in service["volumes"]}
        assert mounted - {"sluice.yaml"} == {"dagster.yaml", "workspace.yaml"}
        assert mounted - {"sluice.yaml"} <= {path.name for path in (PACKAGING / "compose").iterdir()}
    guard = BrowserGuard(Starlette(), **guard_of(UiSettings()))
    scope = {"type": "http", "method": "GET", "query_string": b"", "server": ("172.18.0.4", 3000)}
    for host in (b"localhost:3000", b"127.0.0.1:3000"):
        assert guard.refusal({**scope, "headers": [(b"host", host)]}) is None
    server = read("compose/workspace.yaml")["load_from"][0]["grpc_server"]
    assert (server["host"], str(server["port"])) == (
        "code",
        ours["code"]["environment"]["DAGSTER_CODE_SERVER_PORT"],
    )


def test_the_image_is_built_without_the_clones_hidden_files() -> None:
    """Its environment and caches are the clone's alone."""
    assert (ROOT / ".dockerignore").read_text(encoding="utf-8") == ".*\n"


def test_instances_in_containers_have_the_settings_of_up() -> None:
    """What is not about containers is as in the file that ``up`` copies."""
    ours, of_up = read("compose/dagster.yaml"), yaml.safe_load(INSTANCE_SETTINGS.read_text())
    assert {key: value for key, value in ours.items() if key not in OF_CONTAINERS} == of_up
    assert set(ours) - set(of_up) == OF_CONTAINERS


def test_a_driver_is_there_for_runs_in_postgres() -> None:
    """For the address that the compose file's settings, the runbook's and the chart's make."""
    runbook = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
    block = yaml.safe_load("storage:" + runbook.split("```yaml\nstorage:")[1].split("```")[0])
    for storage in (read("compose/dagster.yaml")["storage"], block["storage"]):
        settings = storage["postgres"]["postgres_db"]
        url = pg_url_from_config({"postgres_db": {**settings, "password": "secret", "port": 5432}})
        assert create_engine(url).dialect.driver == "psycopg2"
    assert read("helm/values.yaml")["postgresql"]["postgresqlScheme"] == settings["scheme"]


def test_the_configuration_of_the_charts_values_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the variable it is given in, ``validate`` finds no mistake; the port stands in all three places."""
    (deployment,) = read("helm/values.yaml")["dagster-user-deployments"]["deployments"]
    variables = {each["name"]: each["value"] for each in deployment["env"]}
    assert variables["DAGSTER_CODE_SERVER_PORT"] == str(deployment["port"])
    monkeypatch.setenv("SLUICE_CONFIG_YAML", variables["SLUICE_CONFIG_YAML"])
    assert main(["validate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
    assert [pipeline.name for pipeline in load_config().pipelines] == ["orders"]


def test_the_bill_of_materials_is_cyclonedxs_and_names_what_is_locked() -> None:
    """Its own schema takes it; every package of the lock is in it, but for other systems'."""
    from cyclonedx.validation.json import JsonStrictValidator  # a second of imports

    bill = bill_of_materials("spark", "spark-s3", "spark-postgres")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    named = {component["name"] for component in json.loads(bill)["components"]}
    locked = [line.split("==")[0] for line in lock_path("run").read_text().splitlines() if "==" in line]
    elsewhere = {
        line.split("==")[0] for line in lock_path("run").read_text().splitlines() if "== 'win32'" in line
    }
    assert set(locked) - named == elsewhere

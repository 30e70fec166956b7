"""The quick selection of what `./sluice prove` runs, on the servers of the test run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.catalogue import choose
from prove.report import complaint
from prove.run import run_one
from prove.workload import Testbed

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker
    from prove.scenario import Scenario
    from prove.servers import Servers

# A soak takes as long as all others: `prove --quick` has it.
QUICK = [each for each in choose(is_quick=True) if not each.minutes]

pytestmark = [
    pytest.mark.faults,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.rest,
    pytest.mark.postgres,
]


@pytest.fixture(scope="module")
def testbed(
    kafka: KafkaBroker, spark_remote: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Testbed:
    """The servers of the test run."""
    catalogs = {name: servers.catalog(name) for name in ("rest", "postgres")}
    return Testbed(tmp_path_factory.mktemp("prove"), str(kafka), servers.s3(), spark_remote, catalogs)


@pytest.mark.parametrize("scenario", QUICK, ids=[scenario.name for scenario in QUICK])
def test_the_promise_is_kept(scenario: Scenario, testbed: Testbed) -> None:
    """Struck there, no pipeline loses, doubles, leaves or needlessly reads a record."""
    outcome = run_one(scenario, testbed)
    assert outcome.is_kept, complaint(outcome)
    assert not outcome.left_out

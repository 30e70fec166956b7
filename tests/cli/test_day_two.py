"""What an operator types on day two, command after command, on one pipeline."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from cli.app import main
from prove.lab.pipeline_lab import configure, orders, progress
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Command = Callable[..., tuple[int, str]]
REASON = ("--reason", "a test")
STRICT = {"expect_column_values_to_be_between": {"column": "id", "max_value": 99}}


@pytest.fixture
def lab(new_lab: NewLab) -> Lab:
    """Twenty orders, not drained yet."""
    return new_lab(orders(0, 20))


@pytest.fixture
def command(lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command about the lab's pipeline in this process; its exit code and all that it said."""
    monkeypatch.setenv("SLUICE_CONFIG", str(lab.path))

    def run(*words: str) -> tuple[int, str]:
        name, *rest = words
        capsys.readouterr()
        code = main([*name.split(), "orders", *rest])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def _told(answer: tuple[int, str]) -> Any:
    """The object that ``--json`` prints last."""
    return json.loads(answer[1].splitlines()[-1])


def test_acts_without_a_table_name_what_makes_it(command: Command) -> None:
    """One error and one hint, whatever was to be done."""
    acts = [
        ("pause", *REASON),
        ("resume", *REASON),
        ("skip", "0:0-1", *REASON),
        ("source",),
        ("rollback", "--to", "7", *REASON),
        ("replay", "--range", "0:0-5", *REASON),
        ("query", "SELECT 1"),
        ("trace", "0:1"),
    ]
    for act in acts:
        code, said = command(*act)
        assert code == 78, said
        assert "no-table-yet" in said
        assert "./sluice drain orders" in said


def test_a_pipeline_through_day_two(command: Command, lab: Lab, new_lab: NewLab) -> None:
    """Paused, resumed, skipped over, held, published, discarded, rolled back: all of it is in the history."""
    lab.drain()
    first = str(lab.table().metadata.current_snapshot_id)
    assert "orders: paused since" in command("pause", *REASON)[1]
    new_lab.produce(lab, orders(20, 5))
    code, said = command("drain")
    assert (code, "./sluice resume orders --reason" in said) == (0, True)
    assert "drains again" in command("resume", *REASON)[1]
    assert command("resume", *REASON)[1].endswith("orders: it was not paused\n")

    code, said = command("skip", "0:3-5", *REASON)
    assert (code, "not-next-offset" in said) == (78, True)
    assert command("skip", "0:20-22", *REASON)[1] == "orders: skipped 0:20-22 (2 offsets): a test\n"
    assert command("skip", "0:20", *REASON)[0] == 2
    assert "the source has not changed" in command("source", "--accept", *REASON)[1]
    assert command("source", "--accept")[0] == 2
    assert "caught-up: 1 batch of 3 records drained in " in command("drain")[1]

    suite = {"name": "strict", "when": "gate", "expectations": [STRICT]}
    configure(lab, "pipelines/orders", {"quality": [suite]})
    assert command("held list") == (0, "orders: no batch is held\n")
    for decision, decided in (("publish", "published"), ("discard", "discarded")):
        new_lab.produce(lab, orders(1000, 5))
        code, said = command("drain")
        assert (code, "./sluice held list orders" in said) == (65, True)
        listed = command("held list", "--json")
        assert (listed[0], len(_told(listed)["held"])) == (1, 1)
        assert "strict" in command("held list")[1]
        assert _told(command(f"held {decision}", *REASON, "--json"))[decided]["balance"]["rows"] == 5
        code, said = command(f"held {decision}", *REASON)
        assert (code, "nothing-held" in said) == (78, True)
    configure(lab, "pipelines/orders", {"quality": None})
    assert command("recover") == (0, "orders: nothing to recover\n")

    back = _told(command("rollback", "--to", first, *REASON, "--json"))
    assert (back["undone"], back["next_offsets"]) == (["0:20-35"], {"0": 20})
    assert command("drain")[0] == 0
    assert progress(lab).next_offsets == {0: 35}
    code, said = command("upkeep", "--only", "log", "--json")
    assert _told((code, said))["log"]["folded_attempts"] == 9
    done = _told(command("history", "--json"))["history"]
    by_hand = [line["kind"] for line in reversed(done) if line["reason"] == "a test"]
    assert by_hand == ["pause", "resume", "skip", "discard", "rollback"]
    assert all("@" in line["actor"] for line in done if line["reason"] == "a test")
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.lag) == (35, 0)

"""Operator acts with a fault half-way, repeated or left to the next run."""

from __future__ import annotations

import json

from prove.crash import promises
from prove.crash.jobs import Job, at, drain_twice
from prove.crash.promises import DEAR_RECORDS
from prove.lab.pipeline_lab import orders
from prove.workload import BATCH, Workload

CHEAP = {"expect_column_values_to_be_between": {"column": "price", "max_value": 100}}
GATED = {"quality": [{"name": "strict", "when": "gate", "expectations": [CHEAP]}]}


def _produce_dear(workload: Workload) -> None:
    workload.drain_batches()
    workload.produce(
        [json.dumps({**json.loads(each), "price": 900.5}).encode() for each in orders(40, DEAR_RECORDS)]
    )


def _produce_rejected(workload: Workload) -> None:
    """Commit one batch, then produce rows that fail the gate: each becomes a dead letter."""
    _produce_dear(workload)
    workload.contents.rows -= DEAR_RECORDS
    workload.contents.dead_letters += DEAR_RECORDS


def _hold_batch(workload: Workload) -> None:
    _produce_dear(workload)
    workload.run()


def _hold_batch_to_discard(workload: Workload) -> None:
    _hold_batch(workload)
    workload.contents.rows -= DEAR_RECORDS


def _recreate_topic(workload: Workload) -> None:
    workload.drain_batches()
    workload.recreate_topic()


GATED_DRAIN = Job(
    "gated-drain",
    "a drain with a quality gate",
    at(promises.AGAIN, "drain.after-gate"),
    settings=GATED,
)
HELD_DRAIN = Job(
    "held-drain",
    "a drain whose batch fails its gate",
    {
        **at(promises.JUDGED_AGAIN, "drain.after-tasks", "drain.after-gate", "drain.after-held"),
        **at(promises.HELD_STILL, "drain.after-parquet-written"),
    },
    prepare=_produce_dear,
    again=("drain", "publish"),
    settings=GATED,
)
REJECTING_DRAIN = Job(
    "rejecting-drain",
    "a drain whose gate makes failing rows dead letters",
    {
        **at(promises.REJECTED_AGAIN, "drain.after-gate"),
        **at(promises.ADOPTED, "drain.after-parquet-written"),
        **at(promises.FOUND, "drain.after-commit"),
    },
    prepare=_produce_rejected,
    settings={"quality": [{**GATED["quality"][0], "on_failure": "dead_letters"}]},
)
PUBLISH = Job(
    "publish",
    "the publishing of a held batch",
    {
        **at(promises.ADOPTED, "held.after-published", "recover.before-adoption", "commit.before-swap"),
        **at(
            promises.FOUND,
            "commit.after-swap",
            "recover.after-adoption",
            "recover.after-iceberg-snapshot-created",
        ),
        **at(promises.OVER, "recover.after-flush-complete"),
    },
    promises.SETTLED,
    prepare=_hold_batch,
    work="publish",
    settings=GATED,
)
DISCARD = Job(
    "discard",
    "the discarding of a held batch",
    {
        **at(promises.DISCARDED_AGAIN, "act.after-offset-commit", "act.before-swap"),
        **at(promises.DISCARDED, "act.after-swap", "act.after-iceberg-snapshot-created"),
        **at(promises.DISCARD_OVER, "act.after-flush-complete", "recover.before-delete"),
    },
    prepare=_hold_batch_to_discard,
    work="discard",
    again=("discard", "drain"),
    settings=GATED,
    done_already="nothing-held",
)
ACCEPT = Job(
    "accept",
    "the acceptance of a topic that was made anew",
    {**at(promises.ACCEPTED_AGAIN, "act.before-swap"), **at(promises.ACCEPTED, "act.after-swap")},
    prepare=_recreate_topic,
    work="accept",
    again=("accept", "drain"),
    of_earlier=BATCH,
)
_RETYPE = "retype id decimal(38,0)"
RETYPE = Job(
    "retype",
    "a column's change of type",
    {
        **at(
            promises.RETYPED_ON,
            "act.after-offset-commit",
            "change.before-swap",
            "change.after-swap",
            "act.after-iceberg-snapshot-created",
            "act.after-flush-complete",
            "retype.before-swap",
            "retype.after-swap",
            "act.before-swap",
        ),
        **at(promises.RETYPE_OVER, "act.after-swap"),
    },
    prepare=drain_twice,
    work=_RETYPE,
    again=("drain", _RETYPE),
    done_already="cannot-retype",
)

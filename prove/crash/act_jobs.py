"""What an operator does, struck half-way: and then does again, or leaves to the next run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from prove.crash.jobs import Job, at, later
from prove.crash.promises import (
    ACCEPTED,
    ACCEPTED_AGAIN,
    ADOPTED,
    AGAIN,
    DEAR_RECORDS,
    DISCARD_OVER,
    DISCARDED,
    DISCARDED_AGAIN,
    FOUND,
    HELD_STILL,
    JUDGED_AGAIN,
    OVER,
    SETTLED,
)
from prove.lab.pipeline_lab import orders
from prove.stage import BATCH, PARTITIONS

if TYPE_CHECKING:
    from prove.stage import Play

CHEAP = {"expect_column_values_to_be_between": {"column": "price", "max_value": 100}}
GATED = {"quality": [{"name": "strict", "when": "gate", "expectations": [CHEAP]}]}


def _dear(play: Play) -> None:
    play.produce_batch()
    play.work()
    play.produce(
        [json.dumps({**json.loads(each), "price": 900.5}).encode() for each in orders(40, DEAR_RECORDS)]
    )


def _held(play: Play) -> None:
    _dear(play)
    play.work()


def _held_to_discard(play: Play) -> None:
    _held(play)
    play.produced.rows -= DEAR_RECORDS


def _topic_made_anew(play: Play) -> None:
    play.produce_batch()
    play.work()
    topic = play.lab.pipeline.topic
    play.kafka.delete_topic(topic)
    play.kafka.create_topic(topic, PARTITIONS, retention_ms=-1)


GATED_DRAIN = Job(
    "gated-drain", "a drain with a quality gate", later, at(AGAIN, "drain.after-gate"), settings=GATED
)
HELD_DRAIN = Job(
    "held-drain",
    "a drain whose batch fails its gate",
    _dear,
    {
        **at(JUDGED_AGAIN, "drain.after-gate", "drain.after-held"),
        **at(HELD_STILL, "drain.after-parquet-written"),
    },
    again=("drain", "publish"),
    settings=GATED,
)
PUBLISH = Job(
    "publish",
    "the publishing of a held batch",
    _held,
    {
        **at(ADOPTED, "held.after-published", "recover.before-adoption", "commit.before-swap"),
        **at(
            FOUND,
            "commit.after-swap",
            "recover.after-adoption",
            "recover.after-iceberg-snapshot-created",
        ),
        **at(OVER, "recover.after-flush-complete"),
    },
    SETTLED,
    work="publish",
    settings=GATED,
)
DISCARD = Job(
    "discard",
    "the discarding of a held batch",
    _held_to_discard,
    {
        **at(DISCARDED_AGAIN, "act.after-offset-commit", "act.before-swap"),
        **at(DISCARDED, "act.after-swap", "act.after-iceberg-snapshot-created"),
        **at(DISCARD_OVER, "act.after-flush-complete", "recover.before-delete"),
    },
    work="discard",
    again=("discard", "drain"),
    settings=GATED,
    done_already="nothing-held",
)
ACCEPT = Job(
    "accept",
    "the acceptance of a topic that was made anew",
    _topic_made_anew,
    {**at(ACCEPTED_AGAIN, "accept.before-swap"), **at(ACCEPTED, "accept.after-swap")},
    work="accept",
    again=("accept", "drain"),
    of_earlier=BATCH,
)

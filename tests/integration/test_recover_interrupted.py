"""Recoveries that are killed at any point, or meet another recovery, end like undisturbed ones."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.recovery.recover import recover
from tests.support.lake import Lake
from tests.support.recovery_scene import Killed, Scene, adoptable, landed, make_scene

if TYPE_CHECKING:
    from collections.abc import Callable

POINTS = (
    "recover.after-interrupt",
    "recover.after-dead-letters",
    "recover.before-adoption",
    "commit.before-swap",
    "commit.after-swap",
    "dead-letters.before-swap",
    "dead-letters.after-swap",
    "recover.after-adoption",
    "recover.after-iceberg-snapshot-created",
    "recover.after-flush-complete",
    "recover.before-delete",
    "recover.after-sweep",
)
ADOPTION_POINTS = {
    "recover.before-adoption",
    "commit.before-swap",
    "commit.after-swap",
    "recover.after-adoption",
}


@pytest.mark.parametrize(("before", "point"), list(itertools.product([adoptable, landed], POINTS)))
def test_recovery_killed_anywhere_is_recovered(
    scene: Scene, before: Callable[[Scene], None], point: str
) -> None:
    """A recovery that dies at any point is finished by the next one: no row doubled, lost, or left over."""
    before(scene)
    is_on_the_way = point not in {
        "recover.before-adoption",
        "recover.after-adoption",
        "commit.before-swap",
        "commit.after-swap",
    }
    if before is adoptable or is_on_the_way:
        with pytest.raises(Killed):
            scene.recover(point)
    scene.recover()
    assert scene.lake.offsets() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert scene.dead_letter_table().scan().to_arrow()["_kafka_offset"].to_pylist() == [4]
    assert scene.files() == scene.named()
    assert scene.unfinished() == ()


def test_two_recoveries_at_once_are_harmless(scene: Scene) -> None:
    """A second recovery in the middle of the first, wherever it comes, changes nothing about the end."""
    points = [
        "recover.after-interrupt",
        *sorted(ADOPTION_POINTS),
        "dead-letters.before-swap",
        "recover.before-delete",
    ]
    for number, point in enumerate(points):
        start = number * 10
        scene.leave(start, start + 10, 4, dead_letters=[start])
        scene.leave(start, start + 6, 3)
        inner = Inner(point, scene)
        recover(scene.pipeline, replace(scene.connections, fail_points=inner))
        assert inner.is_done, point
        assert scene.lake.next_offset() == start + 10, point
        scene.recover()
        assert scene.files() == scene.named(), point
        assert scene.unfinished() == (), point
    everything = range(10 * len(points))
    assert scene.lake.offsets() == [offset for offset in everything if offset % 10]


@dataclass
class Inner:
    """Runs a whole recovery when a point is first reached."""

    point: str
    scene: Scene
    is_done: bool = False

    def reach(self, name: str) -> None:
        if name == self.point and not self.is_done:
            self.is_done = True
            self.scene.recover()


@pytest.mark.rest
def test_adopt_and_sweep_over_s3(request: pytest.FixtureRequest, namespace: str) -> None:
    """The same over a catalog server and an object store: adoption, listing by attempt, deletion."""
    properties = request.getfixturevalue("rest_catalog_properties")
    s3 = request.getfixturevalue("s3")
    scene = make_scene(Lake("rest", dict(properties), namespace), f"s3://{s3.bucket}/state")
    adoptable(scene)
    result = scene.recover()
    assert (len(result.adopted), len(result.swept), result.swept_files) == (1, 1, 1)
    assert scene.lake.offsets() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert scene.files() == scene.named()
    assert scene.unfinished() == ()

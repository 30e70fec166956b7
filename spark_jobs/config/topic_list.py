"""The broker's topics as last listed, for ``topics_regex``: loading a configuration asks no broker.

``./sluice up``, ``init``, ``validate`` and ``status`` list them anew; a topic made since then becomes a
pipeline the next time one of these runs and the code location is reloaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from spark_jobs.storage.state_files import write_whole


def read_topics(home: str) -> tuple[str, ...]:
    """Topics as last listed, by name; none before the first listing."""
    try:
        return tuple(json.loads(_file(home).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return ()


def write_topics(home: str, topics: Iterable[str]) -> None:
    """Remember a listing."""
    write_whole(_file(home), json.dumps(sorted(topics), indent=1) + "\n")


def _file(home: str) -> Path:
    return Path(home) / "run" / "topics.json"

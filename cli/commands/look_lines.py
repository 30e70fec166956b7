"""What ``up`` says while it stays: who needs a person, how many are how, what a new configuration changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from cli.commands.state_word import PipelineFacts, PipelineState, StateWord
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.words import count

_GOES_ITS_WAY = frozenset({StateWord.CAUGHT_UP, StateWord.BEHIND})
_MOST_NAMES = 5


def look_lines(
    seen: Sequence[tuple[PipelineFacts, PipelineState]], before: Mapping[str, StateWord]
) -> Iterator[str]:
    """Return how many pipelines are how, then those whose word changed since ``before`` or needs a person.

    What goes from behind to caught-up and back is counted only; what is alike is told once, with the names,
    and why somebody is needed when it begins.
    """
    told = (_counted(word, [facts for facts, state in seen if state.word is word]) for word in StateWord)
    yield f"{count(len(seen), 'pipeline')}: {', '.join(filter(None, told)) or 'none is configured'}"
    alike: dict[str, list[str]] = defaultdict(list)
    for facts, state in seen:
        was = before.get(facts.pipeline.name)
        has_changed = was is not None and was is not state.word and not {was, state.word} <= _GOES_ITS_WAY
        if was is state.word and state.word.needs_person:
            alike[f"still {was}, ./sluice status says why"].append(facts.pipeline.name)
        elif has_changed or state.word.needs_person:
            alike[_told(state, was if has_changed else None)].append(facts.pipeline.name)
    for sentence, names in alike.items():
        yield f"  {_few(names)}: {sentence}"


def difference(before: Sequence[PipelineConfig], after: Sequence[PipelineConfig]) -> Iterator[str]:
    """Return which pipelines came, went, are fed from another topic, or are set otherwise."""
    old, new = ({each.name: each for each in side} for side in (before, after))
    if came := [name for name in new if name not in old]:
        yield f"new: {_few(came)}"
    if gone := [name for name in old if name not in new]:
        yield f"gone: {_few(gone)}"
    kept = [(old[name], each) for name, each in new.items() if name in old and old[name] != each]
    for was, now in kept:
        if was.topic != now.topic:
            yield f"{now.name} reads {now.topic}, before {was.topic}"
    if otherwise := [now.name for was, now in kept if was.topic == now.topic]:
        yield f"set otherwise: {_few(otherwise)}"


def _counted(word: StateWord, having: Sequence[PipelineFacts]) -> str:
    lag = sum(facts.lag or 0 for facts in having)
    waiting = f" ({count(lag, 'record')})" if lag else ""
    return f"{len(having):,} {word}{waiting}" if having else ""


def _told(state: PipelineState, was: StateWord | None) -> str:
    now = f"{was}, now {state.word}" if was else state.word.value
    return (
        now
        + (f": {state.reason}" if state.reason else "")
        + (f"\n    {state.next_step}" if state.next_step else "")
    )


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")

"""Checks of team files' expressions in a separate process, which starts in about a second.

DuckDB evaluates some constants when it binds (a pattern, a format), and nothing ends that but its process.
Time is the processor's, so that a busy machine refuses nobody.
"""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple

from spark_jobs.config.problems import Finding, mistake
from spark_jobs.config.settings import PipelineSettings, PipelineTemplate

# By all files beside what each pipeline may: one that is too slow takes half, the next half of the rest.
MOST_SECONDS = 1.0
_EACH_SECONDS = 0.02
_STARVED_SECONDS = 60
_MOST_KNOWN = 8
_Asked = Sequence[tuple[int, int, PipelineSettings]]
# By what was asked: processes that load the same files again and again start no other one.
_known: dict[bytes, list[list[Finding]]] = {}


def judge(entry: PipelineSettings, *, folds: bool = True) -> Iterable[Finding]:
    """Return the result of ``judge_expressions``, loading DuckDB only if there are expressions."""
    others = (
        isinstance(entry, PipelineTemplate),
        any(column.source for column in entry.columns.values()),
        entry.dead_letters.partition_by,
        any(each.regexes for suite in entry.quality for each in suite.expectations),
    )
    if not (has_expressions(entry) or any(others)):
        return ()
    from spark_jobs.config.expressions import judge_expressions  # noqa: PLC0415  (DuckDB)

    return judge_expressions(entry, folds=folds)


def has_expressions(entry: PipelineSettings) -> bool:
    """True if the pipeline has SQL or JMESPath."""
    return (
        any(column.is_computed for column in entry.columns.values())
        or bool(entry.dead_letters.columns)
        or (entry.filter, entry.route.by) != (None, None)
        or any(each.row_condition is not None for suite in entry.quality for each in suite.expectations)
    )


def judge_apart(files: Sequence[Sequence[PipelineSettings]]) -> list[list[Sequence[Finding]]]:
    """Return the mistakes of each pipeline of each file; for a slow file, that it takes too long."""
    found: list[list[Sequence[Finding]]] = [
        [() if has_expressions(entry) else tuple(judge(entry)) for entry in entries] for entries in files
    ]
    asked: _Asked = [
        (file, at, entry)
        for file, entries in enumerate(files)
        for at, entry in enumerate(entries)
        if has_expressions(entry)
    ]
    seconds = MOST_SECONDS
    while asked:
        seconds /= 2
        answers = _answers(pickle.dumps((seconds, asked)), len(asked))
        for (file, at, _), findings in zip(asked, answers, strict=False):
            found[file][at] = findings
        if len(answers) == len(asked):
            break
        file, at, _ = asked[len(answers)]
        found[file][at] = (mistake("expression-too-slow"),)
        asked = [each for each in asked[len(answers) :] if each[0] != file]
    return found


def _answers(asked: bytes, whole: int) -> list[list[Finding]]:
    """Return the results one after the other, up to where the process ended."""
    if (known := _known.get(asked)) is not None:
        return known
    output = b""
    with suppress(OSError):
        ran = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            output, _ = ran.communicate(asked, _STARVED_SECONDS)
        except subprocess.TimeoutExpired:
            ran.kill()
            output, _ = ran.communicate()
    lines = output.split(b"\n")[:-1]
    answers = [[Finding(tuple(path), *rest) for path, *rest in json.loads(line)] for line in lines]
    if len(answers) == whole:
        if len(_known) == _MOST_KNOWN:
            _known.clear()
        _known[asked] = answers
    return answers


def _work() -> None:
    """Check the expressions on standard input; a timer's signal ends it if a file takes too long."""
    from spark_jobs.config.expressions import judge_expressions  # noqa: PLC0415  (before time counts)
    from spark_jobs.expressions import judging  # noqa: PLC0415

    seconds, asked = pickle.load(sys.stdin.buffer)  # noqa: S301  (written by who started this)
    judging.bound_type(judging.judge("1"), {})  # what it takes to open the engine is nobody's
    counts = Counter(file for file, _, _ in asked)
    last = None
    for file, _, entry in asked:
        if file != last:
            signal.setitimer(signal.ITIMER_PROF, seconds + _EACH_SECONDS * counts[file])
            last = file
        findings = [astuple(each) for each in judge_expressions(entry, folds=False)]
        sys.stdout.write(json.dumps(findings) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _work()

"""What a configuration file may cost those who load it, whoever wrote it."""

from __future__ import annotations

import os
import string
import subprocess
import time

import pytest

from spark_jobs.config import judge_process
from spark_jobs.config.build import build_config
from spark_jobs.config.expansion import expand
from spark_jobs.config.expressions import judge_expressions
from spark_jobs.config.file import MOST_BY_ALIASES, MOST_TEAM_BYTES, parse_document, read_config
from spark_jobs.expressions.judging import ExpressionError
from spark_jobs.expressions.regex import whole_matches

QUICK_SECONDS = 5.0  # what was endless before; a busy machine takes its time
HEAD = "version: 1\n"


def _doubled(levels: int, of: int = 9) -> str:
    names = string.ascii_lowercase[:levels]
    parts = ["lol", *(f"*{name}" for name in names)]
    lines = [f"{name}: &{name} [{','.join([part] * of)}]\n" for name, part in zip(names, parts, strict=False)]
    return HEAD + "".join(lines)


def _built(text: str):
    document, problems = parse_document("sluice.yaml", text)
    assert document is not None
    assert not problems
    return build_config(document, (), home="/home/.sluice", folder="/home", judge=judge_expressions)


def test_aliases_of_aliases_are_refused_at_once():
    """335 characters that come to a billion values are named with the line where they grow too many."""
    began = time.monotonic()
    document, (problem,) = parse_document("team.yaml", _doubled(9))
    assert time.monotonic() - began < QUICK_SECONDS
    assert document is None
    assert problem.line == 6
    assert str(problem).startswith("team.yaml:6: has 66,430 values once its YAML aliases are expanded")


def test_merged_maps_of_merged_maps_are_refused_too():
    """``<<`` writes out what it names as any other alias does."""
    text = HEAD + "a: &a {x: 1, y: 2}\n"
    for name, before in zip(string.ascii_lowercase[1:], string.ascii_lowercase, strict=False):
        text += f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 4)}]}}\n"
    document, (problem,) = parse_document("team.yaml", text)
    assert document is None
    assert "aliases" in problem.message


def test_aliases_that_save_writing_are_taken():
    """A thousand pipelines with the same twenty keys come to no more than a file may."""
    shared = ", ".join(f"p{at}: x" for at in range(20))
    pipelines = "".join(
        f"  t{at}: {{topic: t{at}, table: l.t{at}, table_properties: *shared}}\n" for at in range(1000)
    )
    text = (
        HEAD
        + f"pipelines:\n  a: {{topic: a, table: l.a, table_properties: &shared {{{shared}}}}}\n"
        + pipelines
    )
    assert MOST_BY_ALIASES > 1000 * 40
    assert len(_built(text).config.pipelines) == 1001


def test_a_team_file_that_takes_more_than_a_second_to_read_is_named(tmp_path):
    """It is left out with its size; the main file may be as long, and other teams' pipelines stay."""
    long = f"# {'x' * MOST_TEAM_BYTES}\n"
    main = tmp_path / "sluice.yaml"
    main.write_text(f"{long}{HEAD}include: teams/*.yaml\npipelines: {{a: {{topic: a, table: l.a}}}}\n")
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams/large.yaml").write_text(f"{long}pipelines: {{b: {{topic: b, table: l.b}}}}\n")
    (tmp_path / "teams/small.yaml").write_text("pipelines: {c: {topic: c, table: l.c}}\n")
    config = read_config(main).config
    assert [each.name for each in config.pipelines] == ["a", "c"]
    (problem,) = config.problems
    assert str(problem) == (
        f"{tmp_path}/teams/large.yaml: has 131,114 bytes; a team's file may have at most 131,072"
        " — Split its pipelines into several files."
    )


def test_of_many_mistakes_in_one_file_a_hundred_are_told():
    """What each key was meant as takes a millisecond to find: 23,000 of them took ten seconds."""
    keys = ", ".join(f"frshness{at}: 1" for at in range(500))
    text = HEAD + f"pipelines:\n  a: &a {{{keys}}}\n" + "".join(f"  b{at}: *a\n" for at in range(45))
    began = time.monotonic()
    problems = _built(text).problems
    assert time.monotonic() - began < QUICK_SECONDS
    assert sum("is not a key that Sluice knows" in problem.message for problem in problems) in {99, 100}


@pytest.mark.parametrize("regex", [r"(\w+)+!", r"(a|aa)+!", r"(.*)*x"])
def test_no_regular_expression_takes_longer_than_its_topics(regex):
    """Of 40 letters each of these took hours where every way through them was tried."""
    config = _built(f"{HEAD}pipelines: {{p: {{topics_regex: '{regex}', table: 'l.{{topic}}'}}}}\n").config
    began = time.monotonic()
    assert expand(config, ["a" * 200]).pipelines == ()
    assert time.monotonic() - began < QUICK_SECONDS


@pytest.mark.parametrize(
    ("regex", "said"),
    [
        ("a(?=b)", "'a(?=b)' has a lookaround, which RE2 cannot do: (?="),
        ("a(?!b)", "has a lookaround, which RE2 cannot do: (?!"),
        ("(?<=a)b", "has a lookaround, which RE2 cannot do: (?<="),
        ("(?<!a)b", "has a lookaround, which RE2 cannot do: (?<!"),
        (r"(a)\1", r"has a back reference, which RE2 cannot do: \1"),
        ("(?P<x>a)(?P=x)", "has a back reference"),
        ("(?>a)b", "has an atomic group"),
        ("a++", "has a possessive repeat"),
        ("(a)(?(1)b|c)", "has a condition"),
        ("(?<x>a)", "is not a regular expression: invalid perl operator"),
        ("[", "is not a regular expression: missing ]"),
        ("*a", "is not a regular expression: no argument for repetition operator"),
    ],
)
@pytest.mark.parametrize("key", ["topics_regex", "regex", "regex_list"])
def test_what_re2_cannot_do_is_refused_by_name(regex, said, key):
    """Of topics and of expectations alike, with the line and the key of each."""
    written = f"[x, '{regex}']" if key == "regex_list" else f"'{regex}'"
    suite = (
        f"[{{name: s, expectations: [expect_column_values_to_match_{key}: {{column: a, {key}: {written}}}]}}]"
    )
    if key == "topics_regex":
        text, place = f"    topics_regex: '{regex}'\n    table: l.{{topic}}\n", key
    else:
        text = f"    quality: {suite}\n    topic: a\n    table: l.a\n"
        place = f"quality.0.expectations.0.expect_column_values_to_match_{key}.{key}"
    (problem,) = _built(f"{HEAD}pipelines:\n  p:\n{text}").problems
    assert (problem.line, problem.key) == (4, f"pipelines.p.{place}")
    assert said in problem.message
    assert "without lookaround" in problem.hint


def test_whole_topics_match_in_their_order():
    """Quotes and letters of any script stay what they are; part of a name is no match, ``|`` no way out."""
    assert whole_matches("b|a.*", ["az", "ba", "b", "xa"]) == ["az", "b"]
    assert whole_matches("it's", ["it's", "its"]) == ["it's"]
    assert whole_matches("ä.", ["äß", "ä"]) == ["äß"]
    assert whole_matches(".*", []) == []
    with pytest.raises(ExpressionError):
        whole_matches("[", [])


SLOW = "regexp_matches(region, repeat('a', 100000000))"  # its pattern is made when it is bound: ten seconds
COSTLY = "levenshtein(repeat('a', 200000), repeat('b', 200000)) > 1"  # and this one when it is evaluated
FILES = {
    "a_slow": f'slow: {{topic: s, table: l.s, columns: {{region: string}}, filter: "{SLOW}"}}',
    "b_costly": f'costly: {{topic: c, table: l.c, filter: "{COSTLY}"}}',
    "c_wrong": "wrong: {topic: w, table: l.w, columns: {n: long}, filter: n + 1}",
    "d_path": f"path: {{topic: p, table: l.p, columns: {{n: {{type: string, jmespath: '{'[' * 3000}'}}}}}}",
    "e_good": "good: {topic: g, table: l.g, columns: {n: long, m: {type: long, sql: n * 2}}, filter: n > 1}",
}


def _processor_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def test_a_team_files_expressions_take_a_second_of_a_process_of_their_own(tmp_path, monkeypatch):
    """The file that takes longer is named and left out; what others say is judged all the same."""
    monkeypatch.setattr(judge_process, "_known", {})
    (tmp_path / "teams").mkdir()
    for name, pipeline in FILES.items():
        (tmp_path / "teams" / f"{name}.yaml").write_text(f"pipelines:\n  {pipeline}\n")
    main = tmp_path / "sluice.yaml"
    main.write_text("version: 1\ninclude: teams/*.yaml\npipelines: {a: {topic: a, table: l.a}}\n")
    began = _processor_seconds()
    reading = read_config(main)
    assert _processor_seconds() - began < QUICK_SECONDS
    assert reading.config is not None
    assert [each.name for each in reading.config.pipelines] == ["a", "costly", "good"]
    told = {problem.key: problem for problem in reading.config.problems}
    assert list(told) == ["pipelines.slow", "pipelines.wrong.filter", "pipelines.path.columns.n.jmespath"]
    assert "takes more than half a second to check" in told["pipelines.slow"].message
    assert (told["pipelines.slow"].file, told["pipelines.slow"].line) == (f"{tmp_path}/teams/a_slow.yaml", 2)


def test_the_same_team_files_are_judged_once_by_a_process_and_others_without_expressions_by_none(
    tmp_path, monkeypatch
):
    """Loading again starts no other child; the main file's expressions are bound in the process."""
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *told, **more: started.append(told) or popen(*told, **more)
    )
    monkeypatch.setattr(judge_process, "_known", {})
    team, main = tmp_path / "team.yaml", tmp_path / "sluice.yaml"
    main.write_text(
        "version: 1\ninclude: team.yaml\npipelines: {a: {topic: a, table: l.a, filter: n = '1'}}\n"
    )
    team.write_text("pipelines: {b: {topic: b, table: l.b, columns: {n: long}}}\n")
    assert read_config(main).config.problems == ()
    assert started == []
    team.write_text("pipelines: {b: {topic: b, table: l.b, columns: {n: long}, filter: n = 1}}\n")
    for _ in range(2):
        assert read_config(main).config.problems == ()
    assert len(started) == 1


def test_a_process_that_cannot_judge_names_the_files(tmp_path, monkeypatch):
    """They are left out, never taken as they are."""

    def no_process(*_told, **_more):
        raise OSError("no more processes")

    monkeypatch.setattr(judge_process, "_known", {})
    monkeypatch.setattr(subprocess, "Popen", no_process)
    main = tmp_path / "sluice.yaml"
    main.write_text("version: 1\ninclude: team.yaml\npipelines: {a: {topic: a, table: l.a}}\n")
    (tmp_path / "team.yaml").write_text("pipelines: {b: {topic: b, table: l.b, filter: n = 1}}\n")
    config = read_config(main).config
    assert [each.name for each in config.pipelines] == ["a"]
    assert [problem.key for problem in config.problems] == ["pipelines.b"]

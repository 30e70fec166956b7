"""From a parsed file to its model, with every mistake as a line and a key instead of an exception. Pure."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from spark_jobs.config.contradictions import check_main_file, check_team_file
from spark_jobs.config.problems import (
    ConfigProblem,
    Document,
    Finding,
    UnreadableValueError,
    closest,
    did_you_mean,
    in_order,
)
from spark_jobs.config.written import WrittenFile, WrittenTeamFile

_Model = TypeVar("_Model", bound=WrittenTeamFile)

# Told of one file: more is one mistake many times over, and what each meant takes a millisecond to find.
MOST_MISTAKES = 100
_WANTED = {
    "string_type": "must be text",
    "dict_type": "must be a map of key: value",
    "model_type": "must be a map of key: value",
    "model_attributes_type": "must be a map of key: value",
    "tuple_type": "must be a list",
    "missing": "is required",
}


def validate(document: Document, model: type[_Model]) -> tuple[_Model | None, list[ConfigProblem]]:
    """Return the file's model and its mistakes, the first hundred of wrong keys and values.

    With mistakes, the model holds what is left when the keys in error are taken out (a pipeline goes as a
    whole), so that what is right can still be compared with other files; None when nothing is left.
    """
    findings: list[Finding] = []
    written: _Model | None
    try:
        written = _read(document.content, model)
    except ValidationError as error:
        findings += _translate_all(model, error.errors(include_url=False)[:MOST_MISTAKES])
        written = _validate_rest(document.content, model, findings)
    checks = check_main_file if model is WrittenFile else check_team_file
    contradictions = list(checks(document.content))
    if contradictions and written is not None:
        written = _validate_rest(document.content, model, [*findings, *contradictions])
    problems = [document.locate(finding) for finding in [*findings, *contradictions]]
    return written, list(in_order(problems))


def _validate_rest(content: dict[str, Any], model: type[_Model], findings: list[Finding]) -> _Model | None:
    rest, pipelines = dict(content), content.get("pipelines")
    if isinstance(pipelines, dict):
        rest["pipelines"] = pipelines = dict(pipelines)
    for finding in findings:
        section, *keys = finding.path
        if section == "pipelines" and keys and isinstance(pipelines, dict):
            pipelines.pop(keys[0], None)
        else:
            rest.pop(section, None)
    if "version" in model.model_fields:
        rest["version"] = "1"
    try:
        return _read(rest, model)
    except ValidationError:
        return None


def _read(content: dict[str, Any], model: type[_Model]) -> _Model:
    return model.model_validate(content, by_alias=True, by_name=False)


# What other tools have under these names: a wish deserves more than the nearest key.
_FORMAT = "What values are written in is a pipeline's `value`: `value: {format: avro, registry: main}`."
_MIRROR = "A table that is as its database's is `layout: mirror`: docs/CHANGE_DATA.md."
_WISHES = {
    **dict.fromkeys(("format", "value_format", "schema_registry", "decoder", "value_converter"), _FORMAT),
    **dict.fromkeys(("mode", "upsert", "merge", "primary_key", "identifier_fields", "cdc"), _MIRROR),
    **dict.fromkeys(("port", "host"), "Write listen: HOST:PORT, or listen: off."),
    **dict.fromkeys(
        ("transform", "transforms", "where", "rename", "condition"),
        "A column's `sql` makes its values, `filter` says which records are rows: docs/SHAPES.md.",
    ),
}


def _translate_all(model: type[BaseModel], details: list[ErrorDetails]) -> list[Finding]:
    """Return every mistake; a required key that is there under a mistyped name is one, not two."""
    findings = [(_translate(model, detail), detail["type"]) for detail in details]
    meant = {
        (*finding.path[:-1], _meant(finding.path[-1], _known_keys(model, finding.path)))
        for finding, kind in findings
        if kind == "extra_forbidden"
    }
    return [finding for finding, kind in findings if kind != "missing" or finding.path not in meant]


def _translate(model: type[BaseModel], detail: ErrorDetails) -> Finding:
    path = tuple(str(part) for part in detail["loc"] if part != "[key]")
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, UnreadableValueError):
        return Finding(path, cause.message, cause.hint)
    kind = detail["type"]
    if kind == "extra_forbidden":
        if (wish := _WISHES.get(path[-1])) is not None:
            return Finding(path, "is not a key Sluice knows", wish)
        known = _known_keys(model, path)
        hint = did_you_mean(_meant(path[-1], known), f"Known here: {', '.join(sorted(known))}.")
        return Finding(path, "is not a key Sluice knows", hint)
    if kind in {"enum", "literal_error"}:
        return Finding(path, f"must be {detail['ctx']['expected']}")
    return Finding(path, _WANTED.get(kind, detail["msg"]))


def _known_keys(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """Return the keys of the section that the path's last key stands in; names of pipelines are no keys."""
    holder: type[BaseModel] | None = model
    for part in path[:-1]:
        fields = _by_key(holder) if holder else {}
        field = fields.get(part)
        holder = _model_in(field.annotation) if field else holder
    return list(_by_key(holder or model))


def _by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields under the names a person writes."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model in an annotation, however wrapped: optional, annotated, a map's or a list's items."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _meant(key: str, known: list[str]) -> str | None:
    return closest(key.lower().replace("-", "_"), known)

"""What a team file may use of the platform: what the main file lends by name, secrets and hosts too. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from spark_jobs.config.problems import Document, Finding, Path
from spark_jobs.config.redaction import REFERENCE

# The host as every reader of URLs sees it: no user, no backslash, no reference before the path.
_ORIGIN = re.compile(r"(https?://[A-Za-z0-9.-]+(?::\d+)?)(?:[/?#][^\\\s]*)?")


@dataclass(frozen=True, slots=True)
class Lent:
    """Secrets as between ``${`` and ``}``; hosts as ``[http://]host[:port]``, https without a scheme."""

    secrets: frozenset[str] = frozenset()
    webhook_hosts: frozenset[str] = frozenset()
    registries: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()

    @classmethod
    def of(cls, entry: object) -> Lent:
        """Return what one entry of ``include`` lends; a plain glob lends nothing."""
        given = entry if isinstance(entry, Mapping) else {}
        return cls(*(_texts(given.get(each.name)) for each in fields(cls)))

    def __or__(self, other: Lent) -> Lent:
        both = {each.name: getattr(self, each.name) | getattr(other, each.name) for each in fields(self)}
        return Lent(**both)


def check_borrowed(team: Document, lent: Lent) -> Iterator[Finding]:
    """Give a finding for every registry, source, secret of webhooks and host that is not lent."""
    for path, kind, name in _named(team.content):
        if name not in getattr(lent, kind):
            told = f"uses {name}, which the main file does not lend to team files"
            yield Finding(path, told, _line(team, f"{kind}: [{name}]"))
    for path, webhook in _said(team.content, "notify", ("webhook", "trouble", "secret")):
        references = REFERENCE.findall(webhook)
        for name in references:
            if name not in lent.secrets:
                told = f"uses ${{{name}}}, which the main file does not lend to team files"
                yield Finding(path, told, _line(team, f'secrets: ["{name}"]'))
        if path[-1] == "secret" or REFERENCE.fullmatch(webhook):
            continue  # where it leads is the secret's, and so the platform's choice
        origin = _ORIGIN.fullmatch(webhook)
        if origin is None:
            told = "must name its host in plain, without a user"
            yield Finding(path, told, "Write https://host/path, or one ${…} that holds the whole URL.")
        elif not _is_lent(origin[1].lower(), lent.webhook_hosts):
            host = origin[1].lower().removeprefix("https://")
            told = f"goes to {host}, which the main file does not lend to team files"
            yield Finding(path, told, _line(team, f'webhook_hosts: ["{host}"]'))


def _is_lent(origin: str, hosts: frozenset[str]) -> bool:
    return _exact(origin) in {_exact(host if "://" in host else f"https://{host}") for host in hosts}


def _exact(origin: str) -> str:
    """Return the origin without the port that its scheme has anyway."""
    lower = origin.lower()
    return lower.removesuffix(":443" if lower.startswith("https:") else ":80")


def _line(team: Document, lends: str) -> str:
    return f"Write include: [{{files: {team.file}, {lends}}}] in the main file."


def _named(content: dict[str, Any]) -> Iterator[tuple[Path, str, str]]:
    """Give what is used by its name, and under which key of the main file it stands."""
    for section, key, kind in (
        ("value", "registry", "registries"),
        ("key", "registry", "registries"),
        ("mirror", "source", "sources"),
    ):
        for path, name in _said(content, section, (key,)):
            yield path, kind, name


def _said(content: dict[str, Any], section: str, keys: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Give the texts under these keys of a section, of the file's defaults and of each pipeline."""
    pipelines = content.get("pipelines")
    owners: list[tuple[Path, Any]] = [(("defaults",), content.get("defaults"))]
    if isinstance(pipelines, dict):
        owners += [(("pipelines", name), settings) for name, settings in pipelines.items()]
    for path, settings in owners:
        said = settings.get(section) if isinstance(settings, dict) else None
        for key in keys:
            text = said.get(key) if isinstance(said, dict) else None
            if isinstance(text, str):
                yield (*path, section, key), text


def _texts(value: object) -> frozenset[str]:
    listed = [value] if isinstance(value, str) else value
    return (
        frozenset(each for each in listed if isinstance(each, str))
        if isinstance(listed, list)
        else frozenset()
    )

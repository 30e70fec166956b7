"""What a team file may use of the platform: secrets and webhook hosts that the main file lends. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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

    @classmethod
    def of(cls, entry: object) -> Lent:
        """Return what one entry of ``include`` lends; a plain glob lends nothing."""
        given = entry if isinstance(entry, Mapping) else {}
        secrets, hosts = (given.get(key) for key in ("secrets", "webhook_hosts"))
        return cls(_texts(secrets), _texts(hosts))

    def __or__(self, other: Lent) -> Lent:
        return Lent(self.secrets | other.secrets, self.webhook_hosts | other.webhook_hosts)


def check_borrowed(team: Document, lent: Lent) -> Iterator[Finding]:
    """Give a finding for every webhook that names a secret or goes to a host that is not lent."""
    for path, webhook in _webhooks(team.content):
        references = REFERENCE.findall(webhook)
        for name in references:
            if name not in lent.secrets:
                told = f"uses ${{{name}}}, which the main file does not lend to team files"
                yield Finding(path, told, _line(team, f'secrets: ["{name}"]'))
        if REFERENCE.fullmatch(webhook):
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


def _webhooks(content: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    pipelines = content.get("pipelines")
    owners: list[tuple[Path, Any]] = [(("defaults",), content.get("defaults"))]
    if isinstance(pipelines, dict):
        owners += [(("pipelines", name), settings) for name, settings in pipelines.items()]
    for path, settings in owners:
        notify = settings.get("notify") if isinstance(settings, dict) else None
        for key in ("webhook", "trouble"):
            webhook = notify.get(key) if isinstance(notify, dict) else None
            if isinstance(webhook, str):
                yield (*path, "notify", key), webhook


def _texts(value: object) -> frozenset[str]:
    listed = [value] if isinstance(value, str) else value
    return (
        frozenset(each for each in listed if isinstance(each, str))
        if isinstance(listed, list)
        else frozenset()
    )

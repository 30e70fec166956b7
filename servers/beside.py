"""Sluice's listeners as separate processes of ``up``; drains never wait for them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from servers.environment import sluice_environment
from servers.listener import bound_at, refuse_taken, url_of
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening
from spark_jobs import WITHIN
from spark_jobs.config.listener import Address, ListenerSettings

METRICS = "metrics"
CATALOG = "catalog"
WATCH = "watch"  # the process of both, and of the lines of state that ``up`` prints
SERVE = "serve"
GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Beside:
    """A process of listeners, which answer at ``urls`` (by name) a few seconds later."""

    urls: dict[str, str]
    process: ServerProcess
    # Where it listens unless another does; not where an address was asked for.
    usual: tuple[Address, ...] = ()
    is_insecure: bool = False

    @property
    def lost_its_port(self) -> bool:
        """True if it ended because another Sluice took its port; a restart moves it."""
        return not self.process.is_running and any(is_listening(each.port, each.host) for each in self.usual)


def start_beside(
    command: str,
    listeners: Mapping[str, ListenerSettings],
    sluice_home: Path,
    config_path: str | None,
    *,
    insecure: bool,
) -> Beside:
    """Start the command with the listeners that are on, without waiting for it.

    A second Sluice on the machine must not fail for its metrics: they take a free port. Two that start at
    once both find the usual one free, and one of them ``lost_its_port``. Raises ``ConfigError``
    (``port-taken``) for an address that was asked for.
    """
    at = {
        name: _free(settings, bound_at(settings.listen))
        for name, settings in listeners.items()
        if settings.listen
    }
    typed = [sys.executable, "-m", f"{WITHIN}cli", command, *(["--insecure"] if insecure else [])]
    for name, address in at.items():
        typed += [f"--{name}" if command == WATCH else "--port", str(address.port)]
    process = ServerProcess(
        ServerFolder(sluice_home, command),
        typed,
        sluice_environment(sluice_home, config_path),
        sluice_home,
        prints=command == WATCH,
    )
    urls = {name: url_of(listeners[name], address) for name, address in at.items()}
    usual = tuple(address for name, address in at.items() if not _is_asked_for(listeners[name]))
    return Beside(urls, process, usual, insecure)


def _is_asked_for(settings: ListenerSettings) -> bool:
    return "listen" in settings.model_fields_set


def _free(settings: ListenerSettings, address: Address) -> Address:
    if _is_asked_for(settings):
        refuse_taken(address)
    elif is_listening(address.port, address.host):
        return Address(address.host, free_ports(1)[0])
    return address

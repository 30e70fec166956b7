"""Sluice's listeners as separate processes of ``up``; drains never wait for them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from servers.environment import sluice_environment
from servers.listener import bound_at, refuse_taken, url_of
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening
from spark_jobs import WITHIN
from spark_jobs.config.listener import Address, ListenerSettings

METRICS = "metrics"
CATALOG = "catalog"
SERVE = "serve"
GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Beside:
    """A listener's process; it answers at ``url`` a few seconds later."""

    url: str
    process: ServerProcess
    usual: Address | None = None  # where it listens unless another does; None where an address was asked for
    is_insecure: bool = False

    @property
    def lost_its_port(self) -> bool:
        """True if it ended because another Sluice took its port; a restart moves it."""
        usual = self.usual
        return not self.process.is_running and usual is not None and is_listening(usual.port, usual.host)


def start_beside(
    command: str,
    settings: ListenerSettings,
    sluice_home: Path,
    config_path: str | None,
    *,
    insecure: bool,
) -> Beside | None:
    """Start the command without waiting for it; return None if it is off.

    A second Sluice on the machine must not fail for its metrics: they take a free port. Two that start at
    once both find the usual one free, and one of them ``lost_its_port``. Raises ``ConfigError``
    (``port-taken``) for an address that was asked for.
    """
    if settings.listen is None:
        return None
    address = _free(settings, bound_at(settings.listen))
    typed = [sys.executable, "-m", f"{WITHIN}cli", command, "--port", str(address.port)]
    environment = sluice_environment(sluice_home, config_path)
    process = ServerProcess(
        ServerFolder(sluice_home, command),
        [*typed, *(["--insecure"] if insecure else [])],
        environment,
        sluice_home,
    )
    usual = None if _is_asked_for(settings) else address
    return Beside(url_of(settings, address), process, usual, insecure)


def _is_asked_for(settings: ListenerSettings) -> bool:
    return "listen" in settings.model_fields_set


def _free(settings: ListenerSettings, address: Address) -> Address:
    if _is_asked_for(settings):
        refuse_taken(address)
    elif is_listening(address.port, address.host):
        return Address(address.host, free_ports(1)[0])
    return address

"""Commands of Sluice's that listen, each a process of its own beside Dagster: drains never wait for them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from servers.environment import sluice_environment
from servers.java import java_home
from servers.listener import refuse_taken, url_of
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening
from spark_jobs.config.listener import Address, ListenerSettings

METRICS = "metrics"
CATALOG = "catalog"
SERVE = "serve"
GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Beside:
    """The process; it answers at ``url`` a few seconds after it was started."""

    url: str
    process: ServerProcess


def start_beside(
    command: str,
    settings: ListenerSettings,
    sluice_home: Path,
    config_path: Path | None,
    *,
    insecure: bool,
) -> Beside | None:
    """Start the command and do not wait for it: what runs beside it works without. None when it is off.

    A second Sluice on the machine must not fail for its metrics: they take a free port. Raises
    ``ConfigError`` (``port-taken``) for an address that was asked for.
    """
    if settings.listen is None:
        return None
    address = _free(settings, settings.listen)
    typed = [sys.executable, "-m", "cli", command, "--port", str(address.port)]
    environment = sluice_environment(java_home(), sluice_home, config_path)
    process = ServerProcess(
        ServerFolder(sluice_home, command),
        [*typed, *(["--insecure"] if insecure else [])],
        environment,
        sluice_home,
    )
    return Beside(url_of(settings, address), process)


def _free(settings: ListenerSettings, address: Address) -> Address:
    if "listen" in settings.model_fields_set:
        refuse_taken(address)
    elif is_listening(address.port, address.host):
        return Address(address.host, free_ports(1)[0])
    return address

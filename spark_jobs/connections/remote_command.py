"""The Spark server of a session, by the word of a program, for platforms that give each session its own.

The program prints one line, the server's address as ``spark.remote`` has it, token included. It has this
process's environment and no shell. What it prints beside that is not shown; its last word on stderr is.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from spark_jobs.config.redaction import url_passwords
from spark_jobs.config.secrets import remember, scrub
from spark_jobs.protocol.errors import ConfigError, RetryableError

COMMAND_SECONDS = 600.0  # a cluster may have to start


def ask_for_remote(command: Sequence[str], *, timeout_seconds: float = COMMAND_SECONDS) -> str:
    """Run the program and return the address that it prints; its token is a secret from then on.

    Raises ``ConfigError`` (``spark-command-unusable``) when it cannot be run or prints anything else, and
    ``RetryableError`` (``spark-command-failed``) when it fails or does not end.
    """
    program = command[0]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise _unusable(f"{program} cannot be run: {error.strerror}", program) from None
    with process:
        try:
            printed, complaint = process.communicate(timeout=timeout_seconds)
        except BaseException as error:
            with suppress(ProcessLookupError):  # with what it started, which may hold the pipes
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise _failed(f"it did not end within {timeout_seconds:.0f} s", program) from None
    address = printed.strip()
    for secret in url_passwords(address):
        remember(secret)
    if process.returncode:
        said = scrub((complaint.strip().splitlines() or ["it said nothing on stderr"])[-1])[:300]
        raise _failed(f"exit code {process.returncode}: {said}", program)
    if not address.startswith("sc://") or len(address.split()) != 1:
        raise _unusable(f"{program} did not print one address sc://host:port", program)
    return address


def _failed(reason: str, program: str) -> RetryableError:
    return RetryableError(
        f"the program that tells the Spark server failed: {reason}",
        code="spark-command-failed",
        hint="Run spark.remote_command by hand, as the user and with the environment that runs have.",
        program=program,
    )


def _unusable(reason: str, program: str) -> ConfigError:
    return ConfigError(
        f"spark.remote_command: {reason}",
        code="spark-command-unusable",
        hint="It is an absolute program that prints one line, sc://host:port/;use_ssl=true;token=TOKEN, and"
        " ends with 0: docs/SPARK.md.",
        program=program,
    )

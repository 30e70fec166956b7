"""An Azure Blob Storage for tests: Azurite, which npm installs as locked in the folder of this name."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from pyarrow.fs import AzureFileSystem

from prove.lab.kafka_server import unique_name
from servers.cache import cache_folder, exclusive
from servers.environment import clean_environment
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening

LOCK = Path(__file__).with_name("azurite")
MISSING = (
    "Azurite, an emulator of Azure's storage, needs Node.js and npm, and there is no {program} on the PATH.\n"
    "Tests of tables on Azure fail; all others run. Debian, Ubuntu, as root:\n"
    "  apt-get update && apt-get install --no-install-recommends nodejs npm"
)
# The same in every Azurite, by its documentation.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
HOST = f"{ACCOUNT}.dfs.core.windows.net"
ALL_RIGHTS = "rcwdl"


class NoNodeError(Exception):
    """Node.js or npm is missing; the message contains the command to install them."""


@dataclass(frozen=True, slots=True)
class Azure:
    """The store's address and a container of the caller's own."""

    endpoint: str
    container: str

    def location(self, path: str) -> str:
        """Return the location as Azure, Spark and others spell it; the host is the account's, not ours."""
        return f"abfss://{self.container}@{HOST}/{path}"

    @property
    def properties(self) -> dict[str, str]:
        """Return properties of the FileIO with the account's key."""
        return {**self._address, "adls.account-key": KEY}

    def shared(self, permissions: str = ALL_RIGHTS, *, until: str = "2099-01-01T00:00:00Z") -> dict[str, str]:
        """Return properties of the FileIO with a SAS token for the container instead of the key."""
        version = "2021-12-02"
        place = f"/blob/{ACCOUNT}/{self.container}"
        signed = [permissions, "", until, place, *[""] * 3, version, "c", *[""] * 7]
        key = base64.b64decode(KEY)
        signature = base64.b64encode(hmac.new(key, "\n".join(signed).encode(), hashlib.sha256).digest())
        token = {"sp": permissions, "se": until, "sv": version, "sr": "c", "sig": signature.decode()}
        return {**self._address, "adls.sas-token": urlencode(token)}

    @property
    def _address(self) -> dict[str, str]:
        address = urlsplit(self.endpoint).netloc
        return {
            **{f"adls.{api}-storage-authority": address for api in ("blob", "dfs")},
            **{f"adls.{api}-storage-scheme": "http" for api in ("blob", "dfs")},
            f"adls.connection-string.{HOST}": f"{self.endpoint}/{ACCOUNT}",  # Iceberg-Java's alone
        }


@dataclass(frozen=True, slots=True)
class AzuriteServer:
    """A running store."""

    endpoint: str
    process: ServerProcess


def container_at(endpoint: str) -> Azure:
    """Return the store at this address, with a new container."""
    azure = Azure(endpoint, unique_name("container"))
    address = urlsplit(endpoint).netloc
    AzureFileSystem(
        ACCOUNT,
        account_key=KEY,
        blob_storage_authority=address,
        dfs_storage_authority=address,
        blob_storage_scheme="http",
        dfs_storage_scheme="http",
    ).create_dir(azure.container)
    return azure


def start_azurite(folder: ServerFolder) -> AzuriteServer:
    """Start the store, installing it first if needed, and wait until it listens. Raises ``NoNodeError``."""
    (port,) = free_ports(1)
    command = [_program("node"), str(_installed() / "azurite" / "dist" / "src" / "blob" / "main.js")]
    # Clients are newer than the versions of the API that it knows by name; what they ask for it has.
    options = ("--silent", "--disableTelemetry", "--inMemoryPersistence", "--skipApiVersionCheck")
    process = ServerProcess(folder, [*command, *options, "--blobPort", str(port)], clean_environment())
    process.wait_until(lambda: is_listening(port), 60)
    return AzuriteServer(f"http://127.0.0.1:{port}", process)


def _installed() -> Path:
    """Return the folder of packages in the user's cache; npm compares each one's checksum with the lock's."""
    lock = (LOCK / "package-lock.json").read_bytes()
    folder = cache_folder(f"azurite-{hashlib.sha256(lock).hexdigest()[:12]}")
    packages = folder / "node_modules"
    with exclusive(folder):
        if not (packages / ".package-lock.json").exists():  # npm writes it last
            for name in ("package.json", "package-lock.json"):
                shutil.copy(LOCK / name, folder)
            install = [_program("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run(install, cwd=folder, check=True, stdout=sys.stderr)
    return packages


def _program(name: str) -> str:
    if (found := shutil.which(name)) is None:
        raise NoNodeError(MISSING.format(program=name))
    return found

"""Settings of Sluice's listeners: addresses, host names, TLS and tokens. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import Field, WithJsonSchema

from spark_jobs.config import values
from spark_jobs.config.problems import wrong_value
from spark_jobs.config.values import Frozen, key, parsed

# An address of a machine that answers at all of its addresses, as the machine itself reaches it.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


@dataclass(frozen=True, slots=True)
class Address:
    """A host name or IP address (without brackets) and a port; 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def from_here(self) -> Address:
        """Return the address at which this machine reaches it."""
        return Address(_EVERYWHERE.get(self.host, self.host), self.port)

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


# What mends tokens that come in clear, or says that a proxy before it does.
CLEAR_HINT = (
    "Write tls beside listen, or listen at 127.0.0.1 behind a proxy that speaks TLS; where that proxy is on"
    " another machine, --insecure says that it is meant."
)
DEFAULT_UI = Address("127.0.0.1", 3000)
DEFAULT_METRICS = Address("127.0.0.1", 9464)
DEFAULT_CATALOG = Address("127.0.0.1", 8183)
DEFAULT_SERVE = Address("127.0.0.1", 8181)
DEFAULT_FLIGHT = Address("127.0.0.1", 8182)
DEFAULT_GATEWAY = Address("127.0.0.1", 8088)


def _address(text: str) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None or parts.netloc != text or "@" in text:
        raise wrong_value("not-an-address", text=text)
    return Address(host, port)


AddressOrOff = Annotated[
    Address | None,
    parsed(lambda text: None if text == "off" else _address(text), Address),
    WithJsonSchema({"type": "string", "pattern": r"(:\d+|^off)$"}),
]


def _origin(text: str) -> str:
    origin = text.lower().rstrip("/")
    if not origin.startswith(("https://", "http://")) or "/" in origin.partition("://")[2]:
        raise wrong_value("not-an-origin", text=text)
    return origin


class TlsSettings(Frozen):
    """TLS certificate of a listener, read when the listener starts."""

    cert: values.AbsolutePath = Field(description="File (PEM) of the certificate and its chain.")
    private_key: values.AbsolutePath | None = key(
        None, "File (PEM) of the private key, if it is not in `cert`.", alias="key"
    )


class ListenerDefaults(Frozen):
    """Defaults of `ui`, `metrics`, `catalog_server` and `serve`."""

    hosts: values.OneOrMany[str] = key(
        (),
        "Additional host names in requests, for example of a proxy, with or without a port.",
    )
    origins: values.OneOrMany[Annotated[str, parsed(_origin)]] = key(
        (),
        "Additional origins whose pages may send requests, for example if a proxy changes the Host header.",
    )
    tls: TlsSettings | None = key(
        None, "Enable TLS: `{cert: FILE, key: FILE}` (PEM). Omit `key` if it is in `cert`."
    )


class ListenerSettings(ListenerDefaults):
    """Settings of every listener; ``listen`` None is off, ``section`` is its key in the file."""

    section: ClassVar[str]
    listen: Address | None = None
    # References in them are unresolved.
    tokens: values.OneOrMany[values.Secret] = key(
        (),
        "Accepted tokens, for example `${TOKEN}`. Clients send one as a bearer token or as the password of"
        " any user name. Without tokens, every client has access.",
    )

    def over(self, defaults: ListenerDefaults) -> Self:
        """Return the settings with unset keys taken from ``defaults``."""
        unsaid = defaults.model_fields_set - self.model_fields_set
        return self.model_copy(update={name: getattr(defaults, name) for name in unsaid})

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Return the addresses it listens on."""
        return (self.listen,) if self.listen else ()

    @property
    def tokens_in_clear(self) -> str | None:
        """Return a warning if tokens are sent without encryption, else None."""
        beyond = next((each for each in self.addresses if not each.is_loopback), None)
        return f"tokens come to {beyond} in clear" if beyond and self.tokens and self.tls is None else None


class UiSettings(ListenerSettings):
    """Dagster's UI, served by `./sluice up` (docs/how-to/listeners.md)."""

    section = "ui"
    listen: Annotated[
        Address, parsed(_address, Address), WithJsonSchema({"type": "string", "pattern": r":\d+$"})
    ] = key(
        str(DEFAULT_UI),
        "Address to listen on. Listening on other interfaces requires `tokens` or `--insecure`.",
    )


class MetricsSettings(ListenerSettings):
    """Prometheus metrics, served by `./sluice up` or `./sluice metrics`."""

    section = "metrics"
    listen: AddressOrOff = key(
        str(DEFAULT_METRICS),
        "Address to listen on, as in `ui`. `off`: `./sluice up` serves no metrics. If unset and the port is"
        " in use, `up` takes a free one.",
    )


class CatalogServerSettings(ListenerSettings):
    """Read-only catalog for other engines over Iceberg's REST protocol (`./sluice catalog`, `up`)."""

    section = "catalog_server"
    listen: AddressOrOff = key(
        "off",
        "Address to listen on, as in `ui`. `./sluice up` serves the catalog only if this is set;"
        f" `./sluice catalog` uses {DEFAULT_CATALOG} if it is not.",
    )


class ServeSettings(ListenerSettings):
    """Query server for tables and records in Kafka of `hot` pipelines (docs/reference/serving.md)."""

    section = "serve"
    listen: AddressOrOff = key(
        str(DEFAULT_SERVE),
        "Address to listen on, as in `ui`. `./sluice serve` uses it, and `./sluice up` if a pipeline is"
        " `hot`. `off`: `up` does not serve queries. If unset and the port is in use, `up` takes a free one.",
    )
    flight: AddressOrOff = key(
        str(DEFAULT_FLIGHT),
        "Address of Flight SQL, with the same tokens and `tls`, or `off`. If unset and the port is in use,"
        " a free one is taken.",
    )
    memory_bytes: values.Size = key(
        "2GB",
        "Maximum memory of the process, including `hot.memory` of all pipelines but not `query_memory`. Above"
        " it, nothing more is read from Kafka until some records are drained.",
        alias="memory",
    )
    query_memory_bytes: values.Size = key(
        "1GB",
        "Memory of the first concurrent query; the second has a half, the third a third, and so on (eight"
        " queries: 2.7 times this size). Above its share, a query uses a temporary folder.",
        alias="query_memory",
    )
    query_timeout_seconds: values.Duration = key(
        "30s",
        "Maximum time of a query, including sending the answer. A request may set a shorter one.",
        alias="query_timeout",
    )
    max_queries: values.Count = key(
        "8",
        "Maximum number of concurrent queries, each in its own process. Others wait a second and are then"
        " refused (`too-many-queries`).",
    )

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Return the addresses it listens on, including Flight SQL."""
        return tuple(each for each in (self.listen, self.flight) if each)

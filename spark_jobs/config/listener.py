"""How a server of Sluice's listens, the same for each: where, under which names, and for whom. Pure."""

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
    """A host's name or IP address without brackets, and a port; 0 is any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def from_here(self) -> Address:
        """Return where this machine reaches it."""
        return Address(_EVERYWHERE.get(self.host, self.host), self.port)

    @property
    def is_loopback(self) -> bool:
        """True if only this machine reaches what listens there."""
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
    """The certificate that a listener shows; it is read when the listener starts."""

    cert: values.AbsolutePath = Field(
        description="File of the certificate and those that it is signed by (PEM)."
    )
    private_key: values.AbsolutePath | None = key(
        None, "File of its private key (PEM), when `cert` does not hold it.", alias="key"
    )


class ListenerDefaults(Frozen):
    """What `ui`, `metrics`, `catalog_server` and `serve` have, where their own section says nothing else."""

    hosts: values.OneOrMany[str] = key(
        (),
        "Names it is asked under beside its own address, as by a proxy, with a port or without.",
        shown="none",
    )
    origins: values.OneOrMany[Annotated[str, parsed(_origin)]] = key(
        (),
        "Origins whose pages may ask it to do things beside its own, as where a proxy changes the Host.",
        shown="none",
    )
    tls: TlsSettings | None = key(
        None, "`{cert: FILE, key: FILE}` (PEM; no `key` where `cert` holds it): speak TLS.", shown="none"
    )


class ListenerSettings(ListenerDefaults):
    """What every listener has; ``listen`` None is off. ``section`` is its key in the file."""

    section: ClassVar[str]
    listen: Address | None = None
    # References in them are unresolved.
    tokens: values.OneOrMany[values.Secret] = key(
        (),
        "Who does not bring one of these is turned away: as a bearer token, or as the password of any user,"
        " as browsers ask for it. Best as `${TOKEN}`.",
        shown="none: whoever reaches it may use it",
    )

    def over(self, defaults: ListenerDefaults) -> Self:
        """Return the same with what it does not say itself as in ``defaults``."""
        unsaid = defaults.model_fields_set - self.model_fields_set
        return self.model_copy(update={name: getattr(defaults, name) for name in unsaid})

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Return where it listens."""
        return (self.listen,) if self.listen else ()

    @property
    def tokens_in_clear(self) -> str | None:
        """Return what to say of tokens that whoever is on the way can read, None where none go so."""
        beyond = next((each for each in self.addresses if not each.is_loopback), None)
        return f"tokens come to {beyond} in clear" if beyond and self.tokens and self.tls is None else None


class UiSettings(ListenerSettings):
    """Dagster's UI, served by `./sluice up`. See docs/how-to/deploy.md."""

    section = "ui"
    listen: Annotated[
        Address, parsed(_address, Address), WithJsonSchema({"type": "string", "pattern": r":\d+$"})
    ] = key(str(DEFAULT_UI), "Where it listens. Beyond this machine it wants `tokens`, or `--insecure`.")


class MetricsSettings(ListenerSettings):
    """Prometheus metrics, served by `./sluice up` beside Dagster, or by `./sluice metrics` elsewhere."""

    section = "metrics"
    listen: AddressOrOff = key(
        str(DEFAULT_METRICS),
        "Where they are served, as of `ui`; with `off` `./sluice up` serves none. Not written, `up` takes a"
        " free port when this one is taken.",
    )


class CatalogServerSettings(ListenerSettings):
    """The catalog for other engines to read, over Iceberg's REST protocol: by `./sluice catalog`, or `up`."""

    section = "catalog_server"
    listen: AddressOrOff = key(
        "off",
        "Where it is served, as of `ui`; `./sluice up` serves it when this is written,"
        f" `./sluice catalog` at {DEFAULT_CATALOG} when it is not.",
    )


class ServeSettings(ListenerSettings):
    """Queries over tables and what Kafka has beyond them, of `hot` pipelines: docs/reference/serving.md."""

    section = "serve"
    listen: AddressOrOff = key(
        str(DEFAULT_SERVE),
        "Where they are answered, as of `ui`: by `./sluice serve`, and by `./sluice up` where a pipeline is"
        " `hot`; with `off` `up` does not. Not written, `up` takes a free port when this one is taken.",
    )
    flight: AddressOrOff = key(
        str(DEFAULT_FLIGHT),
        "Where they are answered over Flight SQL beside that, for the same tokens and with the same `tls`;"
        " `off` is nowhere. Not written, a free port is taken when this one is.",
    )
    memory_bytes: values.Size = key(
        "2GB",
        "Most memory of the process, `hot.memory` of all pipelines in it; queries have `query_memory` beside"
        " it. Beyond it nothing more is read from Kafka until drains have taken some.",
        alias="memory",
    )
    query_memory_bytes: values.Size = key(
        "1GB",
        "Memory of a query that is alone; one beside it has a half, the next a third, and so on: eight"
        " together have 2.7 times as much. Beyond its own a query uses a temporary folder.",
        alias="query_memory",
    )
    query_timeout_seconds: values.Duration = key(
        "30s",
        "How long a query may take, its answer sent; a request may ask for less.",
        alias="query_timeout",
    )
    max_queries: values.Count = key(
        "8",
        "Queries at once, each in a process of its own; more wait a second and are refused"
        " (`too-many-queries`).",
    )

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Return where it listens, Flight SQL too."""
        return tuple(each for each in (self.listen, self.flight) if each)

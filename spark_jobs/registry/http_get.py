"""HTTP requests to a registry: few retries, bounded, credentials only for its own address."""

from __future__ import annotations

import base64
import re
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from spark_jobs import __version__
from spark_jobs.config.redaction import is_bare_url
from spark_jobs.config.registry_settings import RegistrySettings
from spark_jobs.config.secrets import remember, resolve
from spark_jobs.protocol.errors import RetryableError, SluiceError, fault

# After the first try.
PAUSES_SECONDS = (0.2, 1.0)
MAX_ANSWER_BYTES = 8 << 20
_CHUNK_BYTES = 1 << 16
_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class HttpGet:
    """HTTP client for one base address, for one thread.

    ``is_documented`` is true for the text of a 404 by which the registry says that it has none.
    """

    def __init__(self, access: RegistryAccess, is_documented: Callable[[str], bool]) -> None:
        self._access = access
        self._is_documented = is_documented
        self._session = requests.Session()
        self._session.headers.update(
            access.headers
            | {
                "Accept": "application/vnd.schemaregistry.v1+json, application/json",
                "Accept-Encoding": "identity",
                "User-Agent": f"sluice/{__version__}",
            }
        )

    def get(self, path: str) -> str | None:
        """Return the response below the address; None if it does not exist in the registry."""
        for pause in PAUSES_SECONDS:
            try:
                return self._get(path)
            except RetryableError:
                time.sleep(pause)
        return self._get(path)

    def _get(self, path: str) -> str | None:
        access = self._access
        try:
            with self._session.get(
                f"{access.url}/{path}",
                # A file of the user's (.netrc) must not say who asks; nor may a redirect lead them away.
                auth=lambda request: request,
                allow_redirects=False,
                verify=access.verify,
                cert=access.certificate,
                timeout=access.timeout_seconds,
                stream=True,
            ) as answer:
                return self._read(answer, path)
        except (requests.RequestException, HTTPError, OSError) as error:
            # Their texts are not shown: one that names a header has the credentials in it.
            if wrong := _mistrust(error):
                raise fault("registry-tls", name=access.name, wrong=wrong) from None
            raise _away(access.name, f"does not answer ({type(error).__name__})") from None

    def _read(self, answer: requests.Response, path: str) -> str | None:
        name, status = self._access.name, answer.status_code
        if status in _REFUSED:
            raise fault("registry-refused", name=name, user=self._access.user, status=status, asked=path)
        if answer.is_redirect:
            raise fault(
                "registry-moved",
                name=name,
                host=urlsplit(answer.headers["Location"]).hostname or "on the same host",
                asked=path,
            )
        text = self._text(answer)
        if status == HTTPStatus.OK:
            return text
        if status == HTTPStatus.NOT_FOUND:
            if self._is_documented(text):
                return None
            raise fault("registry-no-api", name=name, asked=path)
        raise _away(name, f"answers HTTP {status}")

    def _text(self, answer: requests.Response) -> str:
        read = b"".join(self._chunks(answer))
        try:
            return read.decode()
        except UnicodeDecodeError:
            raise garbage(self._access.name, "something that is not text") from None

    def _chunks(self, answer: requests.Response) -> Iterator[bytes]:
        """Yield the body in chunks; raises if it is too slow or too large."""
        deadline, size_bytes = time.monotonic() + self._access.timeout_seconds, 0
        while chunk := answer.raw.read1(_CHUNK_BYTES):
            yield chunk
            size_bytes += len(chunk)
            if size_bytes > MAX_ANSWER_BYTES:
                raise garbage(self._access.name, f"more than {MAX_ANSWER_BYTES >> 20} MiB")
            if time.monotonic() > deadline:
                raise _away(self._access.name, "did not finish its answer in time")


def garbage(name: str, what: str) -> SluiceError:
    """Return the error of an invalid answer, as from a gateway in between."""
    return _away(name, f"answers {what}")


def _away(name: str, how: str) -> SluiceError:
    return fault("registry-away", name=name, how=how)


def _mistrust(error: BaseException) -> str:
    """Return OpenSSL's reason for rejecting a certificate; empty for other errors."""
    causes = [error]
    for cause in causes:
        match cause:
            case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
                return ""  # the server ended it, for whatever reason
            case ssl.SSLCertVerificationError():
                return cause.verify_message
            case ssl.SSLError():
                return cause.reason or "the file holds no certificate or key"
            case requests.RequestException() | HTTPError():
                within = (*cause.args, getattr(cause, "reason", None), cause.__context__)
                causes += [each for each in within if isinstance(each, Exception) and each not in causes]
            case OSError() if cause is error:
                return "a file of its certificates cannot be read"
    return ""


# Where a registry is and who asks it: what the configuration says, its secrets resolved.


_TOKEN = re.compile(r"[!-~]+")
# Before the first colon that is not within a reference.
_USER = re.compile(r"((?:\$\{[^}]*\}|[^:$])+):")


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """Resolved address and credentials of a registry; ``headers`` and ``login`` hold secrets.

    ``login`` is ``user:password``, or empty; ``user`` is text.
    """

    name: str
    url: str
    user: str
    headers: dict[str, str] = field(repr=False)
    login: str = field(repr=False)
    verify: str | bool
    certificate: tuple[str, str] | str | None
    timeout_seconds: float


def access_of(name: str, settings: RegistrySettings) -> RegistryAccess:
    """Return the registry's access with secrets resolved now.

    Raises ``ConfigError`` (``missing-secret``, ``registry-access``), which shows no secret.
    """
    auth = settings.auth
    written = {
        "url": settings.url or "",
        "auth.basic": auth.basic.get_secret_value() if auth.basic else "",
        "auth.bearer": auth.bearer.get_secret_value() if auth.bearer else "",
    }
    given = resolve({f"registries.{name}.{key}": value for key, value in written.items() if value})
    url, basic, bearer = (given.get(f"registries.{name}.{key}", "") for key in written)
    if settings.url is not None and not _is_address(url):
        raise fault("registry-access", name=name, setting="url", what="it is not a plain address")
    if auth.basic and not basic.partition(":")[1]:
        raise fault("registry-access", name=name, setting="auth.basic", what="it is not user:password")
    if auth.bearer and not _TOKEN.fullmatch(bearer):
        raise fault("registry-access", name=name, setting="auth.bearer", what="it is not one word of ASCII")
    remember(basic.partition(":")[2])
    encoded = base64.b64encode(basic.encode()).decode()
    header = f"Basic {encoded}" if basic else f"Bearer {bearer}" if bearer else ""
    key = settings.private_key
    return RegistryAccess(
        name=name,
        url=url.rstrip("/"),
        user=_user_of(settings),
        headers={"Authorization": header} if header else {},
        login=basic,
        verify=settings.ca or True,
        certificate=(settings.cert, key) if settings.cert and key else settings.cert,
        timeout_seconds=settings.timeout_seconds,
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
            and is_bare_url(url)
        )
    except ValueError:
        return False


def _user_of(settings: RegistrySettings) -> str:
    """Describe the credentials of a request without revealing secrets."""
    if settings.auth.basic:
        named = _USER.match(settings.auth.basic.get_secret_value())
        return f"as user {named[1]}" if named else "with a user and password"
    if settings.auth.bearer:
        return "with a token"
    return "with a certificate" if settings.cert else "without credentials"

"""Rules for secret keys, masked values, and references to secrets. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from spark_jobs.protocol.errors import SIGNATURE

MASK = "***"

_SECRET_WORDS = re.compile(
    r"password|passwd|passphrase|secret|token|credential|api[._-]?key|access[._-]?key|account[._-]?key|private[._-]?key"
    r"|sas[._-]|connection[._-]?string|jaas|oauthbearer\.config|authorization|cookie|^header\.|[./]header\.|userinfo"
    r"|pass$|basic\.auth|keystore.*pem|\.key$|^key$|key\.pem",
    re.IGNORECASE,
)
# For Spark's own redaction, which knows no exceptions and looks at values too: passwords in URLs. It shows
# less than we do: a user name of SASL is no secret to us, as `scrub` would mask that word everywhere.
SPARK_REDACTION = rf"(?i){_SECRET_WORDS.pattern}|sasl|://[^/@\s:]*:[^/\s]+@"
# What stands before a secret where it is written as one.
_BEFORE = rf"(?i:{_SECRET_WORDS.pattern})[\w.-]*[\"']*\s*[=:]\s*[\"']?(?i:bearer |basic )?|://[^/@\s:]*:"
_SURE_LENGTH = 8
# Ours alone: Spark never has them.
_REGISTRY_AUTH = re.compile(r"(^|\.)auth\.(basic|bearer)$")
_NOT_SECRET = re.compile(
    r"(token[._-](endpoint|uri|type|expires-at)|endpoint\.url|authorization[._-]url|token-refresh-enabled|access-delegation"
    r"|location$|provider$)",
    re.IGNORECASE,
)
# Who somebody is, which is no secret: often a word that names tables and commands as well.
_IDENTITY = re.compile(
    r"(access[._-]?key[._-]?id|s3a\.access\.key|user([._-]?name)?|(client|group)[._-]?id|account[._-]?name"
    r"|principal|role[._-]?arn)$",
    re.IGNORECASE,
)
REFERENCE = re.compile(r"\$\{([^}]*)\}")
FILE = "file:"
# A user's would steer Sluice's own Spark: runs forget them before they resolve references.
SPARKS_VARIABLES = ("SPARK_", "PYSPARK_")
_REFERENCES_ONLY = re.compile(rf"({REFERENCE.pattern})+")
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URL_TOKEN = re.compile(
    r"(?<=;token=)[^;]+|(?<=[?&]password=)[^&#\s]+|(?<=[?&]sslpassword=)[^&#\s]+"
    rf"|{SIGNATURE.pattern}"
)
_USERINFO = re.compile(r"(?<=://)([^/@\s:]*):([^/\s]+)(?=@)")


def wrong_reference(value: str) -> str | None:
    """Return the problem of a ``${ENV}`` or ``${file:/path}`` reference, or None; never quotes the value."""
    if "${" in REFERENCE.sub("", value):
        return "a ${ has no closing brace"
    for reference in REFERENCE.findall(value):
        if reference.startswith(FILE):
            if not reference.startswith(f"{FILE}/"):
                return "${file:…} needs an absolute path"
        elif not _ENVIRONMENT_NAME.fullmatch(reference):
            return "a ${…} does not contain the name of an environment variable"
        elif reference.startswith(SPARKS_VARIABLES):
            return f"{reference} begins like Spark's own variables, which runs do not keep"
    return None


def is_secret_key(key: str) -> bool:
    """True if values of this property (Kafka's, a catalog's, Spark's) must never be shown."""
    is_named = _SECRET_WORDS.search(key) or _REGISTRY_AUTH.search(key)
    return bool(is_named) and not _NOT_SECRET.search(key) and not is_identity_key(key)


def is_identity_key(key: str) -> bool:
    """True if the property identifies the client without proving it."""
    return bool(_IDENTITY.search(key))


def is_plain_secret(key: str, value: str) -> bool:
    """True if a secret is written directly where ``${…}`` could be used."""
    written = [*url_passwords(value), *([value] if value and is_secret_key(key) else ())]
    return any(not REFERENCE.search(each) for each in written)


def url_passwords(value: str) -> tuple[str, ...]:
    """Return passwords (``scheme://user:password@host``, ``?password=``) and Spark Connect tokens in URLs.

    Includes their percent-decoded forms.
    """
    found = [match[2] for match in _USERINFO.finditer(value)] + _URL_TOKEN.findall(value)
    return tuple(dict.fromkeys([*found, *map(unquote, found)]))


def is_bare_url(url: str) -> bool:
    """True if the URL has no user, query or fragment, which may hold secrets; references count as text."""
    return not set("@?#\\") & set(url)


def redact_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a copy with secrets masked; ``${…}`` references are kept."""
    return {key: redact_value(key, value) for key, value in properties.items()}


def redact_value(key: str, value: str) -> str:
    """Return the value, masked if the key is secret; passwords in URLs are always masked."""
    if is_secret_key(key) and not _REFERENCES_ONLY.fullmatch(value):
        return MASK
    return redact_urls(value)


def redact_urls(value: str) -> str:
    """Return the text with passwords in its URLs masked."""
    return _URL_TOKEN.sub(MASK, _USERINFO.sub(rf"\1:{MASK}", value))


def mask(secret: str, text: str) -> str:
    """Return the text with the secret masked; a short secret only as a whole word.

    A short word or number, `orders` as well, is other things too: it goes where it is written as a secret.
    """
    if len(secret) >= _SURE_LENGTH:
        return text.replace(secret, MASK)
    before = _BEFORE if secret.isalpha() or secret.isdecimal() else ""
    return re.sub(rf"({before})(?<!\w){re.escape(secret)}(?!\w)", rf"\1{MASK}", text)

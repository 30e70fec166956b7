"""Client of AWS Glue's Schema Registry: one call, ``GetSchemaVersion``. boto3 is imported when it asks."""

from __future__ import annotations

from functools import cached_property
from http import HTTPStatus
from typing import Any

from spark_jobs.protocol.errors import SluiceError, fault, needs
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.registry.http_get import PAUSES_SECONDS, RegistryAccess
from spark_jobs.registry.references import language_of
from spark_jobs.schema.writer_schema import SchemaText

_CALL = "GetSchemaVersion"
_DEFAULT_REGISTRY = "default-registry"
_NOBODYS = SchemaId("00000000-0000-4000-8000-000000000000")
# Words of AWS for who may not ask; some come with HTTP 400.
_REFUSALS = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)


class GlueClient:
    """Client of one account's registries, without a cache; a subject is ``REGISTRY/SCHEMA`` or ``SCHEMA``."""

    def __init__(self, access: RegistryAccess, region: str | None) -> None:
        self._access = access
        self._region = region
        self._user = access.user if access.login else "with the credentials that AWS's chain finds"

    def try_out(self) -> str:
        """See ``RegistryClient``."""
        self.schema(_NOBODYS)
        return f"{self._glue.meta.endpoint_url} answers requests {self._user}"

    def schema(self, schema_id: SchemaId) -> SchemaText | None:
        """See ``RegistryClient``; also ``ConfigError`` (``registry-access``)."""
        if isinstance(schema_id.value, int):
            return None  # another registry's
        answer = self._ask(SchemaVersionId=schema_id.value)
        return None if answer is None else self._text(answer)

    def version(self, subject: str, version: int | None) -> tuple[SchemaId, SchemaText]:
        """See ``RegistryClient``."""
        registry, _, schema = subject.rpartition("/")
        number = {"LatestVersion": True} if version is None else {"VersionNumber": version}
        name = {"RegistryName": registry or _DEFAULT_REGISTRY, "SchemaName": schema}
        answer = self._ask(SchemaId=name, SchemaVersionNumber=number)
        if answer is None:
            word = "latest" if version is None else version
            raise fault("registry-no-version", name=self._access.name, version=word, subject=subject)
        return SchemaId(answer["SchemaVersionId"]), self._text(answer)

    def _text(self, answer: dict[str, Any]) -> SchemaText:
        language = language_of(self._access.name, answer["DataFormat"], _CALL)
        return SchemaText(language, answer["SchemaDefinition"])

    @cached_property
    def _glue(self) -> Any:
        access = self._access
        with needs("glue"):
            import boto3  # noqa: PLC0415
            from botocore.config import Config  # noqa: PLC0415

        key, _, secret = access.login.partition(":")
        return boto3.Session().client(
            "glue",
            region_name=self._region,
            endpoint_url=access.url or None,
            aws_access_key_id=key or None,
            aws_secret_access_key=secret or None,
            verify=access.verify,
            config=Config(
                connect_timeout=access.timeout_seconds,
                read_timeout=access.timeout_seconds,
                client_cert=access.certificate,
                retries={"total_max_attempts": len(PAUSES_SECONDS) + 1, "mode": "standard"},
            ),
        )

    def _ask(self, **what: Any) -> dict[str, Any] | None:
        with needs("glue"):
            from botocore import exceptions  # noqa: PLC0415

        try:
            answer: dict[str, Any] = self._glue.get_schema_version(**what)
        except exceptions.ClientError as error:
            self._raise_other(error.response)
            return None
        except (exceptions.NoRegionError, exceptions.NoCredentialsError, exceptions.ProfileNotFound) as error:
            setting = "region" if isinstance(error, exceptions.NoRegionError) else "auth"
            raise fault("registry-access", name=self._access.name, setting=setting, what=error) from error
        except exceptions.SSLError as error:
            raise fault("registry-tls", name=self._access.name, wrong=error) from None
        except exceptions.BotoCoreError as error:
            raise self._away(f"does not answer ({type(error).__name__})") from None
        return answer

    def _raise_other(self, response: dict[str, Any]) -> None:
        """Raise what is wrong, unless a schema is not there."""
        code, status = response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]
        if code == "EntityNotFoundException":
            return
        if code in _REFUSALS or status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            asked, name = f"{_CALL}: {code}", self._access.name
            raise fault("registry-refused", name=name, user=self._user, status=status, asked=asked)
        raise self._away(f"answers HTTP {status} ({code})")

    def _away(self, how: str) -> SluiceError:
        return fault("registry-away", name=self._access.name, how=how)

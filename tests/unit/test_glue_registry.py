"""What AWS's client says when Glue's registry cannot be asked, in Sluice's words."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.config.registry_settings import RegistrySettings
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.registry.glue import GlueClient
from spark_jobs.registry.http_get import access_of

SECRET = "hunter2-Tr0ub4dor"
UUID = SchemaId("89791762-2336-4186-9674-299b90a802e2")


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS's chain finds nothing here."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")


def client(**settings: Any) -> GlueClient:
    """Return a client as the configuration would make it."""
    made = RegistrySettings.model_validate({"kind": "glue", "timeout": "1s", **settings})
    return GlueClient(access_of("main", made), made.region)


def answering(client: GlueClient, status: int, code: str) -> SluiceError:
    """Return what an error of AWS becomes."""
    response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(SluiceError) as raised:
        client._raise_other(response)
    return raised.value


@pytest.mark.parametrize(
    ("settings", "code", "told"),
    [
        ({"auth": {"basic": f"me:{SECRET}"}}, "registry-access", "registries.main.region"),
        ({"region": "eu-west-1", "url": "http://127.0.0.1:9"}, "registry-access", "registries.main.auth"),
        (
            {"region": "eu-west-1", "url": "http://127.0.0.1:9", "auth": {"basic": f"me:{SECRET}"}},
            "registry-away",
            "EndpointConnectionError",
        ),
    ],
)
def test_what_is_missing_is_named_and_no_secret(settings: dict[str, Any], code: str, told: str) -> None:
    """A region, credentials, or the service itself."""
    with pytest.raises(SluiceError) as raised:
        client(**settings).schema(UUID)
    assert raised.value.code == code
    assert told in str(raised.value)
    assert SECRET not in str(raised.value)


def test_refusals_and_outages_of_aws_are_told_apart() -> None:
    """An expired token comes with HTTP 400; a limit of requests is no refusal."""
    asked = client(region="eu-west-1")
    for status, code in ((400, "ExpiredTokenException"), (403, "Forbidden"), (400, "AccessDeniedException")):
        error = answering(asked, status, code)
        assert (type(error), error.code) == (ConfigError, "registry-refused")
        assert code in str(error)
    for status, code in ((400, "ThrottlingException"), (500, "InternalServiceException")):
        assert type(answering(asked, status, code)) is RetryableError
    assert asked.schema(SchemaId(7)) is None

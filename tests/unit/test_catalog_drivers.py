"""A catalog whose driver is not installed is a mistake of the configuration, which no later run mends."""

from __future__ import annotations

import sys

import pytest

from spark_jobs.lake.catalog import open_catalog
from spark_jobs.protocol.errors import ConfigError


@pytest.mark.parametrize(
    ("properties", "module", "driver", "told"),
    [
        (
            {"type": "dynamodb"},
            "pyiceberg.catalog.dynamodb",
            "boto3",
            r"(?i)dynamodb.*\[catalog-settings\] Install it",
        ),
        (
            {"type": "glue"},
            "pyiceberg.catalog.glue",
            "boto3",
            r"boto3.*\[extra-missing\] .*pip install 'sluice-lake\[glue\]'",
        ),
        (
            {"type": "sql", "uri": "postgresql://127.0.0.1:9/lake"},
            "psycopg2",
            "psycopg2",
            r"psycopg2.*\[extra-missing\] .*pip install 'sluice-lake\[postgres\]'",
        ),
    ],
)
def test_a_missing_driver_is_named(monkeypatch, properties, module, driver, told):
    """Tried again it would be missing again; the message says which one."""
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ConfigError, match=told):
        open_catalog("lake", properties)


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"type": "hive", "uri": "thrift://127.0.0.1:9"}, "hive-catalog"),
        ({"uri": "thrift://127.0.0.1:9"}, "hive-catalog"),
        ({"type": "rest", "uri": "http://127.0.0.1:9", "s3.signer": "S3V4RestSigner"}, "remote-signing"),
        (
            {"type": "rest", "uri": "http://127.0.0.1:9", "s3.remote-signing-enabled": "True"},
            "remote-signing",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_name(properties, code):
    """Before anybody is asked: neither would fail at once, and both later."""
    with pytest.raises(ConfigError) as caught:
        open_catalog("lake", properties)
    assert caught.value.code == code

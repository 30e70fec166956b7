"""A configuration of any shape gives problems with lines, never an exception and never a secret."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.config.build import build_config
from spark_jobs.config.file import parse_document
from spark_jobs.config.file_models import WrittenFile, WrittenPipeline
from spark_jobs.config.quantities import (
    format_duration,
    format_size,
    parse_duration_seconds,
    parse_size_bytes,
)
from spark_jobs.config.settings import SparkSettings

SECRET = "s3cr3t-canary"
KEYS = [
    *(
        field.alias or name
        for model in (WrittenFile, WrittenPipeline, SparkSettings)
        for name, field in model.model_fields.items()
    ),
    "0",
    "sasl.password",
]
TEXTS = [
    "",
    "1",
    "60s",
    "64MiB",
    "ns.t",
    "ns.{topic}",
    "day(x)",
    "[",
    "latest",
    "${X}",
    "sc://h",
    "null",
    "-1",
]
VALUES = st.recursive(
    st.sampled_from(TEXTS) | st.none() | st.integers() | st.booleans() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(content=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_no_shape_of_a_file_is_an_exception(content):
    """Whatever stands under whatever key, the outcome is a configuration or problems at lines of the file."""
    content["kafka"] = {"sasl.password": [SECRET], "client.id": {SECRET: SECRET}}
    text = yaml.safe_dump({"version": 1, **content})
    document, problems = parse_document("f", text)
    if document is not None:
        problems += build_config(document, (), home="/h/.sluice", folder="/h").problems
    assert problems
    for problem in problems:
        assert problem.line is None or 1 <= problem.line <= text.count("\n") + 1
        assert problem.message
        assert f"'{SECRET}'" not in str(problem)


@given(text=st.text(alphabet="ab:-[]{}&*!%|>'\"#\n \t0", max_size=60))
def test_no_text_is_an_exception(text):
    """Broken YAML is a problem too."""
    document, problems = parse_document("f", text)
    assert document is not None or problems


@given(quantity=st.integers(min_value=1, max_value=10**12))
def test_quantities_come_back(quantity):
    """Writing and reading a size or a duration changes nothing."""
    assert parse_size_bytes(format_size(quantity)) == quantity
    assert parse_duration_seconds(format_duration(quantity)) == quantity

"""What Iceberg's table properties can say: drains and Spark's compaction both write with them. Pure.

Iceberg names six codecs (https://iceberg.apache.org/docs/latest/configuration/#write-properties). PyArrow and
Spark both have five of them; of levels they agree for zstd alone: Spark takes gzip's as a word.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CODEC = "write.parquet.compression-codec"
LEVEL = "write.parquet.compression-level"
ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes"
CODECS = ("zstd", "gzip", "lz4", "snappy", "uncompressed")
_WITH_LEVELS = "zstd"
_ZSTD_LEVELS = range(-7, 23)
# Which properties take which values; all others are nobody's to judge here.
_RULES = (
    (r"(write|commit).*-(bytes|limit|max|merge)", r"0*[1-9]\d*", "a whole number above 0, without a unit"),
    (r"(write|commit).*(\.enabled|partitioned-paths)", "(?i)true|false", "true or false"),
    (
        r"write\.metadata\.metrics\.(default|column\..*)",
        r"(?i)none|counts|full|truncate\([1-9]\d*\)",
        "none, counts, full or truncate(LENGTH)",
    ),
)


class Encoding(StrEnum):
    """Which encodings drains write (Spark's compaction cannot be told): any reader's, or smaller ones too."""

    COMPATIBLE = "compatible"
    COMPACT = "compact"


def wrong_property(key: str, properties: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what is wrong with the value of ``key`` and a hint, or None; any other key is none of ours."""
    value = properties[key]
    if key == CODEC and value.lower() not in CODECS:
        why = "Spark, which compacts, has no Brotli; t" if value.lower() == "brotli" else "T"
        return f"is {value}", f"{why}here are {', '.join(CODECS)}."
    if key == LEVEL:
        codec = codec_of(properties)
        if codec != _WITH_LEVELS:
            return f"is no level of {codec}", f"Leave it out: only {_WITH_LEVELS} has levels here."
        if not value.removeprefix("-").isdecimal() or int(value) not in _ZSTD_LEVELS:
            return f"is {value}", f"A level is a whole number from {_ZSTD_LEVELS[0]} to {_ZSTD_LEVELS[-1]}."
    for keys, values, said in _RULES:
        if re.fullmatch(keys, key, re.ASCII) and not re.fullmatch(values, value, re.ASCII):
            return f"is {value}", f"Write {said}."
    return None


def with_fitting_values(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those, another engine's maybe, that a writer would fail over."""
    return {key: value for key, value in properties.items() if wrong_property(key, properties) is None}


def codec_of(properties: Mapping[str, str]) -> str:
    """Return the codec that the properties name; Iceberg's own default where they name none."""
    return properties.get(CODEC, "zstd").lower()

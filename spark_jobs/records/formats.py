"""The record formats there are, and which one a pipeline's records have.

A format is a file of this room with its decoders, and a row here. Nobody else imports the modules of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.records.decoder import Decoder, PlainDecoder
from spark_jobs.records.json import JsonDecoder
from spark_jobs.records.json_plain import PlainJsonDecoder


@dataclass(frozen=True, slots=True)
class Format:
    """How its records are decoded, and how ``audit`` reads them again."""

    decoder: Decoder
    plain: PlainDecoder


FORMATS: Mapping[str, Format] = {"json": Format(JsonDecoder(), PlainJsonDecoder())}


def format_of(pipeline: PipelineConfig) -> Format:
    """Return the format of the pipeline's records: JSON, as no key of the configuration names another."""
    known = FORMATS["json"]
    return replace(known, decoder=known.decoder.under(pipeline.table_schema.growth))

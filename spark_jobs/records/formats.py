"""The record formats there are, and which one a pipeline's records have.

A format is a file of this room with its decoder, and a row here. Nothing else imports a format's own modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.records.json import JsonDecoder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.records.decoder import Decoder

FORMATS: Mapping[str, Decoder] = {"json": JsonDecoder()}


def decoder_of(_pipeline: PipelineConfig) -> Decoder:
    """Return the decoder of the pipeline's records: JSON's, as no key of the configuration names another."""
    return FORMATS["json"]

"""What configuration models are made of: frozen sections, and a key with its default and its text. Pure."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Frozen(BaseModel):
    """Base of all configuration models: immutable, no unknown fields, no values in validation errors.

    A program names fields as they are called here; a file is read by ``alias`` alone (``validation.py``).
    ``model_fields_set`` is what is written.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_by_alias=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_keys(cls, content: Any) -> Any:
        """Drop keys without a value: a key or section whose every line is commented out is not written."""
        if not isinstance(content, dict):
            return content
        fields = cls.model_fields.items()
        optional = {field.alias or name for name, field in fields if not field.is_required()}
        return {key: value for key, value in content.items() if value is not None or key not in optional}


def key(default: Any, text: str, *, alias: str | None = None, shown: str | None = None) -> Any:
    """Return the field of a key: its default as a person would write it, and one sentence about it.

    ``alias`` is the written name of a field that has its unit in its own name. ``shown`` says in words what
    a ``default`` that cannot be written stands for.
    """
    return Field(
        default=default,
        validate_default=isinstance(default, str),
        alias=alias,
        description=text,
        json_schema_extra=None if shown is None else {"default": shown},
    )

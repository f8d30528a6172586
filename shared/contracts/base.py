"""The base of every contract: strict, immutable, and silent about the values it refuses."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, WithJsonSchema

from shared.metadata import require_metadata


class Contract(BaseModel):
    """An immutable message. Unknown fields are ignored, so that a newer writer does not stop an older reader.

    `hide_input_in_errors`: what a contract refuses may be message content, and an error's text reaches a log.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, ser_json_inf_nan="null")


DISCREET = ConfigDict(hide_input_in_errors=True)
"""For adapters of unions: the outermost schema decides what an error shows, and a union has no configuration."""

NO_CONTROLS = r"^[^\x00-\x1f\x7f]+$"
NO_NUL = r"^[^\x00]+$"
DECIMAL = r"^(0|[1-9][0-9]*)$"
MOMENT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"
"""Patterns of text that a client may send; `shared.contracts.errors` has a sentence for each."""

Id = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=NO_CONTROLS)]
"""An identifier made by a client: 1 to 255 characters, none of them a control character (PostgreSQL stores no NUL)."""


def _is_trimmed(text: str) -> str:
    if text != text.strip():
        raise ValueError("an id must not begin or end with white space")
    return text


NewId = Annotated[Id, AfterValidator(_is_trimmed)]
"""An identifier that is about to be given: no white space around it, which people and tools would lose. Rows that plain
SQL has given such an id are read and changed like others.
"""

_METADATA_SCHEMA: dict[str, object] = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": {"type": "object", "additionalProperties": True},
}

Metadata = Annotated[str, AfterValidator(require_metadata), WithJsonSchema(_METADATA_SCHEMA)]
"""Metadata on its way into the source: the text of one JSON object, within the bounds of `shared.metadata`."""

Timestamp = Annotated[str, StringConstraints(pattern=MOMENT)]
"""UTC, RFC 3339, at most microseconds, without trailing zeros in the fraction (see `shared.times`)."""

"""Ids as clients write them."""

from pydantic import TypeAdapter, ValidationError

from shared.contracts.base import Id
from shared.contracts.errors import RequestFailed

_ID: TypeAdapter[str] = TypeAdapter(Id)


def named(text: str, missing: str) -> str:
    """The id. What cannot be one is nobody's: raises RequestFailed `not_found` with the sentence `missing`."""
    try:
        return _ID.validate_python(text)
    except ValidationError:
        raise RequestFailed("not_found", missing) from None

"""What a reader or a revision replica answers on the asker's own reply stream."""

from typing import Annotated

from pydantic import Field

from shared.contracts.base import Contract
from shared.contracts.errors import Failure

_LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999: a number of any size could not be reckoned with."""


class Envelope(Contract):
    """What every request on `conversation:reads` and `conversation:commands` carries.

    `request_id`: made by the asker, repeated in the reply. `reply_to`: the asker's reply stream.
    `deadline`: Unix time in milliseconds; a request past it is dropped, never answered late.
    """

    request_id: str
    reply_to: str
    deadline: Annotated[int, Field(ge=-_LATEST, le=_LATEST)]


class Refusal(Contract):
    """The reply's body when the request failed."""

    error: Failure

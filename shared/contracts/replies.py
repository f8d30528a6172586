"""What a reader or a revision replica answers on the asker's own reply stream."""

from shared.contracts.base import Contract
from shared.contracts.errors import Failure


class Envelope(Contract):
    """What every request on `conversation:reads` and `conversation:commands` carries.

    `request_id`: made by the asker, repeated in the reply. `reply_to`: the asker's reply stream.
    `deadline`: Unix time in milliseconds; a request past it is dropped, never answered late.
    """

    request_id: str
    reply_to: str
    deadline: int


class Refusal(Contract):
    """The reply's body when the request failed."""

    error: Failure

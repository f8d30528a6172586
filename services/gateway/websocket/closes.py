"""Why the gateway closes a connection. The table is the contract; the client's next action stands beside each code.

code   reason           the client then
-----  ---------------  --------------------------------------------------------------------------------
1001   going away       reconnects, at a random moment of the next seconds; another gateway may answer
1009   message too big  sends smaller messages: one may have 1 MiB
4008   slow consumer    reconnects and reads again: it did not take what was sent for 15 s
"""

from typing import NamedTuple


class Close(NamedTuple):
    """A close code with the reason that is sent beside it."""

    code: int
    reason: bytes


GOING_AWAY = Close(1001, b"going away")
SLOW_CONSUMER = Close(4008, b"slow consumer")

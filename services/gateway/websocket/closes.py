"""Why the gateway closes a connection. The table is the contract; the client's next action stands beside each code.

code   reason           the client then
-----  ---------------  --------------------------------------------------------------------------------
1001   going away       reconnects, at a random moment of the next seconds; another gateway may answer
1009   message too big  sends smaller messages: one may have 8 MiB
4008   slow consumer    reconnects and reads again: it did not take what was sent for 15 s
4010   idle             reconnects when it has something to follow or to ask: it had neither for half an hour
4401   unauthenticated  signs in again: the session or token that opened the connection has ended
"""

from typing import NamedTuple


class Close(NamedTuple):
    """A close code with the reason that is sent beside it. `patience`: seconds in which the client may take it before
    the connection is cut.
    """

    code: int
    reason: bytes
    patience: float


GOING_AWAY = Close(1001, b"going away", 1.0)
UNAUTHENTICATED = Close(4401, b"unauthenticated", 1.0)
IDLE = Close(4010, b"idle", 1.0)
SLOW_CONSUMER = Close(4008, b"slow consumer", 10.0)
"""Its close frame waits behind what the client has not read yet: only one that reads on within this time sees it."""

"""The frames of `session.conversation.changed`: the only place that builds them.

A frame differs between scopes of one view only in the scope id, which is spliced between ready bytes.
"""

from struct import Struct

import orjson

from services.gateway.scopes.projection import Projection
from services.gateway.websocket.framing import framed
from shared.contracts.wire import CHANGED, NO_REVISION, PROTOCOL_VERSION, SESSION_REMOVED

_HEAD = b'{"type":"notification","action":"%b","payload":{"protocol_version":%d,"scope_id":' % (
    CHANGED.encode(),
    PROTOCOL_VERSION,
)


class Frame:
    """A frame without its scope id."""

    __slots__ = ("_framed", "_length", "_place", "_put", "tail")

    def __init__(self, tail: bytes) -> None:
        self.tail = tail
        self._length = -1

    def for_scope(self, encoded_scope_id: bytes) -> bytes:
        """The text for the scope whose id is given as JSON."""
        return _HEAD + encoded_scope_id + self.tail

    def framed_for_scope(self, encoded_scope_id: bytes) -> bytearray:
        """The same as a WebSocket frame, which stays what it is until the next call: whoever keeps it copies it.

        This runs for every scope, and neighbours mostly have ids of one length. Then all that changes is the id, in
        place: kilobytes are not copied thousands of times.
        """
        length = len(encoded_scope_id)
        if length != self._length:
            self._length = length
            self._framed = bytearray(framed(self.for_scope(encoded_scope_id)))
            self._place = len(self._framed) - len(self.tail) - length
            self._put = Struct(f"{length}s").pack_into
        put, frame = self._put, self._framed
        put(frame, self._place, encoded_scope_id)
        return frame


def change(session_id: str, epoch: str, projection: Projection) -> Frame:
    """A change; coverage when nothing in the interval concerns the scope; a reset when the interval cannot be told."""
    if projection.operations is None:
        return reset(session_id, epoch)
    operations = b",".join(operation.encoded for operation in projection.operations)
    return _frame(session_id, epoch, (str(projection.base), str(projection.revision)), operations=operations)


def check(session_id: str, epoch: str, revision: int) -> Frame:
    """Tells the source's current revision."""
    return _frame(session_id, epoch, (str(revision), str(revision)), flag=b',"check":true')


def reset(session_id: str, epoch: str) -> Frame:
    """Tells the consumer to read again (G7: revisions are empty strings)."""
    return _frame(session_id, epoch, (NO_REVISION, NO_REVISION), flag=b',"reset":true')


def terminal(session_id: str, epoch: str) -> Frame:
    """Ends the scope: its session is gone, or no longer the consumer's to read."""
    return _frame(session_id, epoch, (NO_REVISION, NO_REVISION), flag=b',"terminal":true')


def session_removed(session_id: str) -> bytes:
    """The notification `session.removed`, one per connection."""
    return orjson.dumps({"type": "notification", "action": SESSION_REMOVED, "payload": {"session_id": session_id}})


def _frame(
    session_id: str, epoch: str, interval: tuple[str, str], *, operations: bytes = b"", flag: bytes = b""
) -> Frame:
    base, revision = interval
    return Frame(
        b',"session_id":%b,"epoch":%b,"base_revision":"%b","revision":"%b","operations":[%b]%b}}'
        % (orjson.dumps(session_id), orjson.dumps(epoch), base.encode(), revision.encode(), operations, flag)
    )

"""The frames of `session.conversation.changed`: the only place that builds them.

A frame differs between scopes of one view only in the scope id, which is spliced between ready bytes.
"""

from dataclasses import dataclass

import orjson

from services.gateway.scopes.projection import Projection
from shared.contracts.wire import CHANGED, NO_REVISION, PROTOCOL_VERSION, SESSION_REMOVED

_HEAD = b'{"type":"notification","action":"%b","payload":{"protocol_version":%d,"scope_id":' % (
    CHANGED.encode(),
    PROTOCOL_VERSION,
)


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame without its scope id."""

    tail: bytes

    def for_scope(self, encoded_scope_id: bytes) -> bytes:
        """The frame for the scope whose id is given as JSON."""
        return _HEAD + encoded_scope_id + self.tail


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

"""The least revision that every further read of a session must show (G2)."""

from collections import OrderedDict

from shared.contracts.reads import Bound

MAX_SESSIONS = 100_000
"""Sessions remembered: about 20 MB. A forgotten one merely loses the guarantee that a lagging replica is not read."""


class KnownPositions:
    """The newest revision this gateway has seen of each session, in the current epoch only."""

    def __init__(self) -> None:
        self._epoch = ""
        self._revisions: OrderedDict[str, int] = OrderedDict()

    def enter(self, epoch: str) -> None:
        """Begins another epoch: revisions of the earlier one say nothing any more."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._revisions.clear()

    def note(self, session_id: str, epoch: str, revision: int) -> None:
        """Remembers that the source has reached this revision. Another epoch's is ignored."""
        if epoch != self._epoch:
            return
        if revision > self._revisions.get(session_id, -1):
            self._revisions[session_id] = revision
        self._revisions.move_to_end(session_id)
        if len(self._revisions) > MAX_SESSIONS:
            self._revisions.popitem(last=False)

    def forget(self, session_id: str) -> None:
        """The session's history broke, or it is gone."""
        self._revisions.pop(session_id, None)

    def least(self, session_id: str) -> Bound | None:
        """What a read of this session must have reached."""
        revision = self._revisions.get(session_id)
        return None if revision is None else Bound(epoch=self._epoch, revision=revision)

"""What every answer about one session knows of the snapshot it comes from, and who may see it (`docs/protocol.md`, G2).

A page, its epoch, its revision and the access decision come from one statement, hence from one snapshot. What is not
there, and what is there and not the asker's to see, are one case here: no later step can take longer over one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from shared.contracts.errors import RequestFailed
from shared.contracts.reads import Bound, SessionRead

# $1 session, $2 user, $3 unscoped. By primary key throughout. Always one row; without the session's columns when it is
# not there or not the asker's to see, and the two look alike.
HEAD = """
head AS MATERIALIZED (
    SELECT e.epoch, NOT pg_is_in_recovery() AS on_primary, s.id AS session_id, s.task_id AS session_task,
           coalesce(r.revision, 0) AS revision
      FROM conversation.epoch e
      LEFT JOIN public.task_sessions s ON s.id = $1::text AND conversation.session_visible($1, $2::text, $3::boolean)
      LEFT JOIN public.conversation_session_revisions r ON r.session_id = s.id
)"""

HEAD_ALONE = f"WITH {HEAD} SELECT * FROM head"  # noqa: S608 - a literal


class Standing(Protocol):
    """Where a snapshot stands against what the asker knows."""

    @property
    def primary(self) -> bool:
        """Whether the snapshot is the primary's."""

    @property
    def missing(self) -> bool:
        """Whether a session asked for is not there, or not the asker's to see."""

    @property
    def behind(self) -> bool:
        """Whether a session that is there is older than the asker knows it."""


@dataclass(frozen=True, slots=True)
class SessionStanding:
    """The head of a snapshot, against the least position that the asker names."""

    epoch: str
    primary: bool
    present: bool
    task_id: str
    revision: int
    least: Bound | None

    @property
    def missing(self) -> bool:
        """Not there, or not the asker's to see."""
        return not self.present

    @property
    def behind(self) -> bool:
        """There, and older than the asker knows it. Another epoch's revision says nothing."""
        least = self.least
        return self.present and least is not None and least.epoch == self.epoch and self.revision < least.revision

    def require_present(self) -> None:
        """Raises `not_found` when the session is missing; the caller has made sure that the primary says so."""
        if not self.present:
            raise no_session()

    def require_expected(self, read: SessionRead) -> None:
        """Raises `reconciliation_required` when the session is at another revision than the one it has to be at."""
        if read.expected_revision is not None and read.expected_revision != self.revision:
            raise RequestFailed("reconciliation_required", "conversation revision changed")


def standing_of(head: Mapping[str, Any] | None, read: SessionRead) -> SessionStanding:  # Any: columns of a database row
    """The standing that a head row tells. Raises `unavailable` when the database has no epoch."""
    if head is None:
        raise no_epoch()
    return SessionStanding(
        epoch=head["epoch"],
        primary=head["on_primary"],
        present=head["session_id"] is not None,
        task_id=head["session_task"] or "",
        revision=head["revision"],
        least=read.least,
    )


def no_session() -> RequestFailed:
    """What is said of a session that is not there, and of one that is not the asker's to see."""
    return RequestFailed("not_found", "task session not found")


def no_epoch() -> RequestFailed:
    """The schema is there and its history has no name: nothing read from it could be compared with anything."""
    return RequestFailed("unavailable", "the database has no epoch; start the revision service")

"""How much one look at many sessions holds (pure)."""

SESSIONS = 500
"""Most sessions that one query looks at."""

READERS = 5000
"""Most pairs of a session and a reader in one query, a single session's apart: a few hundredths of a second."""


def fits(sessions: int, pairs: int) -> bool:
    """Whether one query takes so many sessions, and pairs of a session and one of its readers."""
    return sessions <= 1 or (sessions <= SESSIONS and pairs <= READERS)

"""Seeds of plans that once failed, each with what it had found. The generator must go on drawing them."""

KEPT: tuple[tuple[int, str], ...] = (
    # The revision service ended: the end of a connection came between two steps, which asyncpg calls an internal error.
    (2, "backends ended"),
    # Two scopes seemed to show a row too many: the comparison's own snapshot had been emptied by a TRUNCATE.
    (300, "a gateway killed"),
)
"""Seed and fault."""

"""What an installation goes through, and in which order (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Manner = Literal["restart", "kill", "flush", "roll", "upgrade"]

UNPLANNED: tuple[Manner, ...] = ("restart", "kill")

GATEWAY = "gateway"
REDIS = "redis"


@dataclass(frozen=True, slots=True)
class Upheaval:
    """One thing that happens to all processes of a service.

    `restart`: told to end, all at once, and started again. `kill`: ended without a word, and started again. `flush`:
    Redis loses what it holds. `roll`: restarted one after the other, each once the one before is ready. `upgrade`:
    replaced as for another version, which is the same one here.
    """

    manner: Manner
    service: str

    @property
    def name(self) -> str:
        """As the command line and the table call it."""
        return f"{self.manner}:{self.service}"


PLANNED = frozenset({"roll:gateway", "upgrade:gateway"})
"""Names of those that clients should hardly notice."""


def plan(services: Sequence[str], upgraded: Sequence[str] = ()) -> tuple[Upheaval, ...]:
    """Everything that can happen to an installation of these services, what is planned at the end. `upgraded`: services
    that can be.
    """
    each = [Upheaval(manner, service) for service in services for manner in UNPLANNED]
    upgrades = [Upheaval("upgrade", service) for service in upgraded]
    return (*each, Upheaval("flush", REDIS), Upheaval("roll", GATEWAY), *upgrades)


def chosen(upheavals: Sequence[Upheaval], names: Sequence[str]) -> tuple[Upheaval, ...]:
    """Those that are named, in the order of their names; all where none is. Raises ValueError for an unknown name."""
    known = {upheaval.name: upheaval for upheaval in upheavals}
    if unknown := set(names) - known.keys():
        raise ValueError(f"expected some of {', '.join(known)}, not {', '.join(sorted(unknown))}")
    return tuple(known[name] for name in names) if names else tuple(upheavals)

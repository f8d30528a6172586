"""Facts about the parts of a running service, as they were found. No judgement."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.broker.presence import Present


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot. `retained`: bytes of the log that it keeps. `lost`: of what it needs, some is gone."""

    name: str
    active: bool
    temporary: bool
    retained: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """PostgreSQL. `error` set: it could not be asked, and nothing else holds.

    `slot_limit`: `max_slot_wal_keep_size` in MB, -1 for none. `idle_timeout`: `idle_in_transaction_session_timeout` in
    milliseconds, 0 for none. `lacking`: tables of which the role may not read and change rows. `breach`: what keeps
    changes from reaching the revisions or the log whole, as the tracker tells it. `unreadable`: columns whose
    rows would fail readers or the tracker.

    `current`, `latest`: schema versions of the database and of this program. `triggers`: enabled or not, by
    "table.trigger". `identities`: pg_class.relreplident by table. `heartbeat_age`, `clock_skew`: seconds.
    `administrated`: anybody may administer; None where that cannot be told.
    """

    place: str
    error: str = ""
    version: int = 0
    wal_level: str = ""
    senders: tuple[int, int] = (0, 0)
    slots_used: tuple[int, int] = (0, 0)
    slot_limit: int = -1
    idle_timeout: int = 0
    replication_right: bool = False
    lacking: tuple[str, ...] = ()
    breach: str = ""
    unreadable: tuple[str, ...] = ()
    current: int = 0
    latest: int = 0
    published: frozenset[str] = frozenset()
    triggers: Mapping[str, bool] = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)
    heartbeat_age: float | None = None
    administrated: bool | None = None
    slots: tuple[Slot, ...] = ()
    clock_skew: float = 0.0


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """Redis. `groups`: consumer groups by stream; a stream that is not there is missing. `waiting`: seconds since the
    oldest request came that is in a stream, where there is one. `eviction`: what it does when its memory is full.
    `present`: the processes that say they run. `clock_skew`: seconds.
    """

    place: str
    error: str = ""
    version: str = ""
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    waiting: Mapping[str, float] = field(default_factory=dict)
    receipt_streams: int = 0
    eviction: str = "noeviction"
    present: tuple[Present, ...] = ()
    clock_skew: float = 0.0


@dataclass(frozen=True, slots=True)
class GatewayFacts:
    """The gateway's own answer to `/ready`. `reasons`: what it waits for, by part. `authentication`: its mode, empty
    where it does not tell.
    """

    url: str
    error: str = ""
    status: int = 0
    state: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    authentication: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that one examination found."""

    database: DatabaseFacts
    redis: RedisFacts
    gateway: GatewayFacts

"""What the facts mean: one finding per aspect, with what to do about it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cli.counting import counted
from cli.diagnosis.facts import DatabaseFacts, Facts, GatewayFacts, RedisFacts
from shared.contracts.streams import COMMANDS, READERS_GROUP, READS, REVISION_GROUP

OLDEST_POSTGRES = 140000
STALE_HEARTBEAT = 10.0
"""Seconds without a heartbeat after which the next tracker starts a new epoch."""
LATE_HEARTBEAT = 3.0
NOTICEABLE_SKEW = 2.0
"""Seconds that clocks may differ. Nothing is decided by comparing them; times that people see would be off."""
LONG_WAIT = 5.0
"""Seconds that a request may stand in its stream. One that is taken, given up or refused is gone within less."""
RETAINED_LIMIT = 1 << 30
"""Bytes of log that a slot may keep before it is worth a warning."""
PUBLISHED = frozenset(
    {"task_session_messages", "task_session_turns", "conversation_session_revisions", "conversation.epoch"}
)
TRIGGERS = frozenset(
    {f"task_session_messages.conversation_rows_{what}" for what in ("inserted", "updated", "deleted", "truncated")}
    | {f"task_session_turns.conversation_rows_{what}" for what in ("inserted", "updated", "deleted", "truncated")}
    | {"task_session_messages.conversation_message_arriving", "task_sessions.conversation_sessions_created"}
)
SERVICES = ("revision", "reader", "gateway")
# By pg_class.relreplident: i is an index of one's own choice, f the whole row.
IDENTITIES = {"task_session_messages": "i", "task_session_turns": "i", "conversation_session_revisions": "f"}


class State(StrEnum):
    """How an aspect is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One aspect: how it is, what was found, and what to do when it is not ok."""

    part: str
    aspect: str
    state: State
    found: str
    advice: str = ""


def judge(facts: Facts, version: str) -> tuple[Finding, ...]:
    """Every finding, part by part. A part that cannot be reached gives one finding and hides what lies behind it.
    `version`: of this program.
    """
    return (
        *judge_database(facts.database),
        *judge_redis(facts.redis),
        *judge_services(facts.redis, version),
        *judge_gateway(facts.gateway),
        *judge_people(facts),
    )


def judge_database(facts: DatabaseFacts) -> tuple[Finding, ...]:
    """PostgreSQL: reachable, able to decode, at this schema, and alive with a tracker."""
    if facts.error:
        return (
            Finding(
                "database", "reachable", State.FAIL, f"{facts.place}: {facts.error}",
                "Start PostgreSQL (`kandev-conversation up` brings one), or correct KANDEV_DATABASE_URL.",
            ),
        )  # fmt: skip
    findings = [Finding("database", "reachable", State.OK, facts.place), _version(facts), _schema(facts)]
    findings += [_wal_level(facts), _replication_right(facts), _rights(facts), _senders(facts), _slot_room(facts)]
    findings += [_retained(facts), _lost(facts), _slot_limit(facts), _idle_timeout(facts)]
    if facts.current:
        findings += [
            _columns(facts),
            _capture(facts),
            _publication(facts),
            _triggers(facts),
            _identities(facts),
            _heartbeat(facts),
        ]
    return (*findings, _skew("database", facts.clock_skew))


def judge_redis(facts: RedisFacts) -> tuple[Finding, ...]:
    """Redis: reachable, and read by the services."""
    if facts.error:
        return (
            Finding(
                "redis", "reachable", State.FAIL, f"{facts.place}: {facts.error}",
                "Start Redis (`kandev-conversation up` brings one), or correct KANDEV_REDIS_URL.",
            ),
        )  # fmt: skip
    findings = [Finding("redis", "reachable", State.OK, f"{facts.place}, version {facts.version}")]
    for stream, group, service in ((READS, READERS_GROUP, "reader"), (COMMANDS, REVISION_GROUP, "revision")):
        findings.append(
            _either(
                "redis", stream, group in facts.groups.get(stream, frozenset()), f"group {group}", f"no group {group}",
                f"Start a {service}: `kandev-conversation run {service}` makes the group.", State.WARN,
            )
        )  # fmt: skip
        waits = facts.waiting.get(stream, 0.0)
        findings.append(
            _either(
                "redis", f"{stream} handled", waits < LONG_WAIT, "none waits", f"one has waited for {waits:.0f} s",
                f"Read the log of the {service} service: it takes what comes too slowly, or fails on it.", State.WARN,
            )
        )  # fmt: skip
    findings.append(
        _either(
            "redis", "receipts", facts.receipt_streams > 0,
            counted(facts.receipt_streams, "stream"), "no receipt stream",
            "Start a revision service; its tracker writes to every partition when it begins.", State.WARN,
        )
    )  # fmt: skip
    findings.append(
        _either(
            "redis", "eviction", not facts.eviction.startswith("allkeys"), facts.eviction, facts.eviction,
            "CONFIG SET maxmemory-policy noeviction: Redis would drop streams, and what waits in them.", State.WARN,
        )
    )  # fmt: skip
    return (*findings, _skew("redis", facts.clock_skew))


def judge_services(facts: RedisFacts, version: str) -> tuple[Finding, ...]:
    """The processes that say they run: each service is there, in one version, and by clocks that agree."""
    if facts.error:
        return ()
    return (*(_runs(facts, service) for service in SERVICES), _versions(facts, version), _clocks(facts))


def judge_gateway(facts: GatewayFacts) -> tuple[Finding, ...]:
    """The gateway: reachable and ready."""
    if facts.error:
        return (
            Finding(
                "gateway", "reachable", State.FAIL, f"{facts.url}: {facts.error}",
                "Start one (`kandev-conversation up`, or `kandev-conversation run gateway`), or name it with --url.",
            ),
        )  # fmt: skip
    reasons = "; ".join(f"{part}: {reason}" for part, reason in sorted(facts.reasons.items()))
    if facts.status == 200 and facts.state != "degraded":
        return (Finding("gateway", "ready", State.OK, facts.url),)
    state = State.WARN if facts.status == 200 else State.FAIL
    return (
        Finding(
            "gateway", "ready", state, f"{facts.state or facts.status}: {reasons or 'no reason given'}",
            "Look at the parts it names; it becomes ready by itself once they answer.",
        ),
    )  # fmt: skip


def judge_people(facts: Facts) -> tuple[Finding, ...]:
    """Where people sign in: somebody administers."""
    if facts.gateway.authentication != "enabled" or facts.database.administrated is None:
        return ()
    return (
        _either(
            "people", "administrator", facts.database.administrated, "there is one",
            "people sign in, and there is no active administrator",
            "Make one: `kandev-conversation user add NAME --admin`, or `user promote NAME`.", State.WARN,
        ),
    )  # fmt: skip


def worst(findings: Iterable[Finding]) -> State:
    """The worst state among them."""
    states = {finding.state for finding in findings}
    return State.FAIL if State.FAIL in states else State.WARN if State.WARN in states else State.OK


def _either(  # noqa: PLR0917 - a row of the table, read in the table's order
    part: str, aspect: str, good: bool, fine: str, found: str, advice: str, state: State
) -> Finding:
    return Finding(part, aspect, State.OK, fine) if good else Finding(part, aspect, state, found, advice)


def _version(facts: DatabaseFacts) -> Finding:
    found = f"PostgreSQL {facts.version // 10000}.{facts.version % 10000}"
    advice = f"Use PostgreSQL {OLDEST_POSTGRES // 10000} or later."
    return _either("database", "version", facts.version >= OLDEST_POSTGRES, found, found, advice, State.FAIL)


def _schema(facts: DatabaseFacts) -> Finding:
    found = f"version {facts.current} of {facts.latest}"
    if facts.current > facts.latest:
        advice = "This program is older than the database: run the version that migrated it, or a later one."
    else:
        advice = "Run `kandev-conversation migrate`."
    return _either("database", "schema", facts.current == facts.latest, found, found, advice, State.FAIL)


def _wal_level(facts: DatabaseFacts) -> Finding:
    found = f"wal_level = {facts.wal_level}"
    advice = "ALTER SYSTEM SET wal_level = 'logical', then restart PostgreSQL: changes cannot be followed without it."
    return _either("database", "wal level", facts.wal_level == "logical", found, found, advice, State.FAIL)


def _rights(facts: DatabaseFacts) -> Finding:
    found = f"the role may not read and change {', '.join(facts.lacking)}"
    advice = "GRANT SELECT, INSERT, UPDATE, DELETE ON … TO the role of KANDEV_DATABASE_URL, or let it own the tables."
    return _either("database", "rights", not facts.lacking, "every table", found, advice, State.FAIL)


def _lost(facts: DatabaseFacts) -> Finding:
    found = ", ".join(slot.name for slot in facts.slots if slot.lost)
    advice = "They fell behind max_slot_wal_keep_size and are of no use: SELECT pg_drop_replication_slot('…')."
    return _either("database", "lost slots", not found, "none", found, advice, State.WARN)


def _slot_limit(facts: DatabaseFacts) -> Finding:
    advice = "ALTER SYSTEM SET max_slot_wal_keep_size = '2GB', then SELECT pg_reload_conf(): a slot can fill the disk."
    limited = facts.slot_limit >= 0
    return _either("database", "slot limit", limited, f"{facts.slot_limit:,} MB", "none", advice, State.WARN)


def _idle_timeout(facts: DatabaseFacts) -> Finding:
    advice = (
        "ALTER SYSTEM SET idle_in_transaction_session_timeout = '5min', then SELECT pg_reload_conf(): a forgotten "
        "transaction that has written keeps a tracker from starting."
    )
    good = facts.idle_timeout > 0
    return _either(
        "database", "idle transactions", good, f"{facts.idle_timeout // 1000} s", "no limit", advice, State.WARN
    )


def _capture(facts: DatabaseFacts) -> Finding:
    found, _, advice = facts.breach.partition(": ")
    return _either("database", "capture", not facts.breach, "whole", found, advice, State.FAIL)


def _columns(facts: DatabaseFacts) -> Finding:
    found = "; ".join(facts.unreadable)
    advice = "Change these columns: rows of them keep their sessions from being read, or from being followed."
    return _either("database", "columns", not found, "as needed", found, advice, State.FAIL)


def _runs(facts: RedisFacts, service: str) -> Finding:
    running = [each for each in facts.present if each.service == service]
    return _either(
        "services", service, bool(running), f"{len(running)} running", "none runs, or none reaches Redis",
        f"Start one: `kandev-conversation run {service}`; if one runs, its /ready says what it waits for.", State.FAIL,
    )  # fmt: skip


def _versions(facts: RedisFacts, version: str) -> Finding:
    others = sorted({f"{each.service} {each.version}" for each in facts.present if each.version != version})
    found = f"{', '.join(others)}; this program is {version}"
    advice = "Finish the upgrade: all processes, and this program, of one version."
    return _either("services", "versions", not others, version, found, advice, State.WARN)


def _clocks(facts: RedisFacts) -> Finding:
    off = [each for each in facts.present if abs(each.clock_skew) >= NOTICEABLE_SKEW]
    found = ", ".join(f"{each.service} {each.name} is {_off(each.clock_skew)} Redis" for each in off)
    advice = "Let NTP set the clocks of these machines."
    return _either("services", "clocks", not off, "in step", found, advice, State.WARN)


def _off(seconds: float) -> str:
    return f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'}"


def _replication_right(facts: DatabaseFacts) -> Finding:
    advice = "ALTER ROLE … REPLICATION for the role of KANDEV_DATABASE_URL."
    found = "the role lacks REPLICATION"
    return _either("database", "role", facts.replication_right, "REPLICATION", found, advice, State.FAIL)


def _senders(facts: DatabaseFacts) -> Finding:
    used, most = facts.senders
    found = f"{used} of {most} in use"
    advice = "Raise max_wal_senders: every revision replica needs one, and a restart."
    return _either("database", "wal senders", used < most, found, found, advice, State.WARN)


def _slot_room(facts: DatabaseFacts) -> Finding:
    used, most = facts.slots_used
    found = f"{used} of {most} in use"
    advice = "Raise max_replication_slots, or drop slots that nobody reads: every revision replica needs one."
    return _either("database", "replication slots", used < most, found, found, advice, State.WARN)


def _retained(facts: DatabaseFacts) -> Finding:
    keeping = [slot for slot in facts.slots if not slot.active and slot.retained > RETAINED_LIMIT]
    found = ", ".join(f"{slot.name} keeps {slot.retained >> 20:,} MiB" for slot in keeping)
    advice = "Nobody reads them and the disk fills. SELECT pg_drop_replication_slot('…') once they are not needed."
    return _either("database", "retained log", not keeping, "none", found, advice, State.WARN)


def _publication(facts: DatabaseFacts) -> Finding:
    missing = ", ".join(sorted(PUBLISHED - facts.published))
    advice = "ALTER PUBLICATION conversation_receipts ADD TABLE …: without it changes of that table are not seen."
    return _either("database", "publication", not missing, "complete", f"lacks {missing}", advice, State.FAIL)


def _triggers(facts: DatabaseFacts) -> Finding:
    missing = sorted(TRIGGERS - set(facts.triggers))
    disabled = sorted(name for name, enabled in facts.triggers.items() if not enabled)
    found = "; ".join(
        f"{what}: {', '.join(names)}" for what, names in (("missing", missing), ("disabled", disabled)) if names
    )
    advice = "ALTER TABLE … ENABLE TRIGGER …; rows written meanwhile have no revision, and a new epoch follows (T4)."
    return _either("database", "triggers", not found, f"{len(facts.triggers)} enabled", found, advice, State.FAIL)


def _identities(facts: DatabaseFacts) -> Finding:
    wrong = ", ".join(sorted(table for table, kind in IDENTITIES.items() if facts.identities.get(table) != kind))
    advice = "Set REPLICA IDENTITY as the migrations do; previous rows are unknown to followers until then."
    return _either("database", "replica identities", not wrong, "as migrated", wrong, advice, State.FAIL)


def _heartbeat(facts: DatabaseFacts) -> Finding:
    advice = "Start a revision service, or read its log: no tracker follows this database."
    age = facts.heartbeat_age
    if age is None:
        return Finding("database", "tracker heartbeat", State.WARN, "never", advice)
    found = f"{max(age, 0.0):.1f} s ago"
    state = State.OK if age < LATE_HEARTBEAT else State.WARN if age < STALE_HEARTBEAT else State.FAIL
    return Finding("database", "tracker heartbeat", state, found, "" if state is State.OK else advice)


def _skew(part: str, seconds: float) -> Finding:
    found = f"{abs(seconds):.1f} s {'ahead' if seconds > 0 else 'behind'}"
    advice = "Let NTP set the clocks of both machines."
    return _either(part, "clock", abs(seconds) < NOTICEABLE_SKEW, "in step", found, advice, State.WARN)

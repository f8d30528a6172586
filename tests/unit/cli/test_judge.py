from dataclasses import replace
from typing import Any

import pytest

from cli.diagnosis.facts import DatabaseFacts, Facts, GatewayFacts, RedisFacts, Slot
from cli.diagnosis.judge import (
    IDENTITIES,
    PUBLISHED,
    SERVICES,
    TRIGGERS,
    State,
    judge,
    judge_database,
    judge_gateway,
    judge_people,
    judge_redis,
    judge_services,
    worst,
)
from shared.broker.presence import Present
from shared.contracts.streams import COMMANDS, READERS_GROUP, READS, REVISION_GROUP

DATABASE = DatabaseFacts(
    place="db/kandev",
    version=170002,
    wal_level="logical",
    senders=(1, 10),
    slots_used=(1, 10),
    replication_right=True,
    slot_limit=2048,
    idle_timeout=300_000,
    current=7,
    latest=7,
    published=PUBLISHED,
    triggers=dict.fromkeys(TRIGGERS, True),
    identities=IDENTITIES,
    heartbeat_age=0.4,
)
VERSION = "1.2.3"
REDIS = RedisFacts(
    place="redis/0",
    version="8.0",
    groups={READS: frozenset({READERS_GROUP}), COMMANDS: frozenset({REVISION_GROUP})},
    receipt_streams=8,
    present=tuple(Present(service, f"{service}-1", VERSION, 0.001) for service in SERVICES),
)
GATEWAY = GatewayFacts(url="http://gateway", status=200, state="ready")


def test_a_sound_service_has_nothing_to_do() -> None:
    findings = [
        *judge_database(DATABASE),
        *judge_redis(REDIS),
        *judge_services(REDIS, VERSION),
        *judge_gateway(GATEWAY),
    ]
    assert worst(findings) is State.OK
    assert not any(finding.advice for finding in findings)


@pytest.mark.parametrize(
    ("change", "aspect", "state"),
    [
        ({"error": "OSError"}, "reachable", State.FAIL),
        ({"version": 130004}, "version", State.FAIL),
        ({"current": 0}, "schema", State.FAIL),
        ({"current": 6}, "schema", State.FAIL),
        ({"current": 8}, "schema", State.FAIL),
        ({"wal_level": "replica"}, "wal level", State.FAIL),
        ({"replication_right": False}, "role", State.FAIL),
        ({"senders": (10, 10)}, "wal senders", State.WARN),
        ({"slots_used": (10, 10)}, "replication slots", State.WARN),
        ({"slots": (Slot("old", False, False, 2 << 30),)}, "retained log", State.WARN),
        ({"slots": (Slot("old", False, False, 0, lost=True),)}, "lost slots", State.WARN),
        ({"slot_limit": -1}, "slot limit", State.WARN),
        ({"idle_timeout": 0}, "idle transactions", State.WARN),
        ({"lacking": ("public.task_sessions",)}, "rights", State.FAIL),
        ({"breach": "the trigger is disabled: ALTER TABLE t ENABLE TRIGGER g"}, "capture", State.FAIL),
        ({"published": PUBLISHED - {"conversation.epoch"}}, "publication", State.FAIL),
        ({"triggers": {}}, "triggers", State.FAIL),
        ({"triggers": dict.fromkeys(TRIGGERS, False)}, "triggers", State.FAIL),
        ({"identities": {**IDENTITIES, "task_session_turns": "d"}}, "replica identities", State.FAIL),
        ({"heartbeat_age": None}, "tracker heartbeat", State.WARN),
        ({"heartbeat_age": 5.0}, "tracker heartbeat", State.WARN),
        ({"heartbeat_age": 11.0}, "tracker heartbeat", State.FAIL),
        ({"clock_skew": -3.0}, "clock", State.WARN),
    ],
)
def test_every_fault_of_the_database_is_found_with_what_to_do(
    change: dict[str, Any], aspect: str, state: State
) -> None:
    found = [finding for finding in judge_database(replace(DATABASE, **change)) if finding.state is not State.OK]
    assert [(finding.aspect, finding.state) for finding in found] == [(aspect, state)]
    assert found[0].advice


@pytest.mark.parametrize(
    ("change", "aspect", "state"),
    [
        ({"error": "ConnectionError"}, "reachable", State.FAIL),
        ({"groups": {COMMANDS: frozenset({REVISION_GROUP})}}, READS, State.WARN),
        ({"groups": {READS: frozenset({READERS_GROUP}), COMMANDS: frozenset()}}, COMMANDS, State.WARN),
        ({"waiting": {READS: 0.2, COMMANDS: 6.0}}, f"{COMMANDS} handled", State.WARN),
        ({"receipt_streams": 0}, "receipts", State.WARN),
        ({"eviction": "allkeys-lru"}, "eviction", State.WARN),
        ({"clock_skew": 3.0}, "clock", State.WARN),
    ],
)
def test_every_fault_of_redis_is_found_with_what_to_do(change: dict[str, Any], aspect: str, state: State) -> None:
    found = [finding for finding in judge_redis(replace(REDIS, **change)) if finding.state is not State.OK]
    assert [(finding.aspect, finding.state) for finding in found] == [(aspect, state)]
    assert found[0].advice


@pytest.mark.parametrize(
    ("present", "aspect", "state"),
    [
        (REDIS.present[1:], "revision", State.FAIL),
        ((*REDIS.present, Present("gateway", "g", "1.2.2", 0.0)), "versions", State.WARN),
        ((*REDIS.present, Present("gateway", "g", VERSION, -2.5)), "clocks", State.WARN),
    ],
)
def test_every_fault_of_the_processes_is_found_with_what_to_do(
    present: tuple[Present, ...], aspect: str, state: State
) -> None:
    judged = judge_services(replace(REDIS, present=present), VERSION)
    found = [finding for finding in judged if finding.state is not State.OK]
    assert [(finding.aspect, finding.state) for finding in found] == [(aspect, state)]
    assert found[0].advice


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"error": "connection refused"}, State.FAIL),
        ({"status": 503, "state": "starting", "reasons": {"redis": "away"}}, State.FAIL),
        ({"state": "degraded", "reasons": {"degraded": "no tracker"}}, State.WARN),
    ],
)
def test_a_gateway_that_is_not_ready_is_found(change: dict[str, Any], state: State) -> None:
    (finding,) = judge_gateway(replace(GATEWAY, **change))
    assert finding.state is state
    assert finding.advice


@pytest.mark.parametrize(
    ("mode", "administrated", "states"),
    [
        ("enabled", True, [State.OK]),
        ("enabled", False, [State.WARN]),
        ("enabled", None, []),
        ("disabled", False, []),
        ("", False, []),
    ],
)
def test_people_who_sign_in_need_an_administrator(mode: str, administrated: bool | None, states: list[State]) -> None:
    facts = Facts(replace(DATABASE, administrated=administrated), REDIS, replace(GATEWAY, authentication=mode))
    found = judge_people(facts)
    assert [finding.state for finding in found] == states
    assert all(finding.advice for finding in found if finding.state is State.WARN)
    assert set(found) <= set(judge(facts, VERSION))

"""A loss is noticed at once, and one batched check follows it, however many signs of it come together."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

import pytest

from services.gateway.receipts.intake import Intake
from services.gateway.scopes.checks import Checks
from shared.broker.receipts import Interruption, ReceiptEntry
from shared.contracts.streams import partition_of
from tests.unit.gateway.in_memory import Gateway
from tests.unit.gateway.memory_source import settled

PARTITIONS = 8
SESSIONS = tuple(f"session{number}" for number in range(40))


def passed(partition: int, sequence: int, term: int = 1, kind: str = "change") -> ReceiptEntry:
    """An entry of a session that nobody follows, or of none."""
    return ReceiptEntry(partition, "nobody", kind, term, sequence, b"{}")


def of(partitions: Iterable[int]) -> set[str]:
    """The followed sessions of some partitions."""
    wanted = set(partitions)
    return {name for name in SESSIONS if partition_of(name, PARTITIONS) in wanted}


class Following:
    """A gateway that follows `SESSIONS` and has seen sequence 1 of term 1 in every partition."""

    def __init__(self, gateway: Gateway) -> None:
        self.source = gateway.source
        self.checks = Checks(gateway.hub, gateway.source, gateway.positions, PARTITIONS)
        self.intake = Intake(gateway.hub, self.checks, PARTITIONS)

    @property
    def checked(self) -> list[set[str]]:
        """What each check asked for, of what is followed."""
        return [set(each) for each in self.source.checked if each]

    async def quiet(self) -> None:
        """Lets everything run that has something to do."""
        for _ in range(200):
            await asyncio.sleep(0)


@pytest.fixture
async def following(gateway: Gateway) -> AsyncIterator[Following]:
    found = Following(gateway)
    running = asyncio.create_task(found.checks.run())
    await found.quiet()
    for name in SESSIONS:
        gateway.source.revisions[name] = 1
        scope = gateway.scope(name)
        scope.view = type(scope.view)(name)
        await gateway.open(scope)
    found.intake.receive([passed(partition, 1) for partition in range(PARTITIONS)])
    await found.quiet()
    assert found.checked == []
    yield found
    running.cancel()
    await asyncio.wait([running])


SIGNS: dict[str, tuple[Callable[[Intake], None], set[int]]] = {
    "a hole": (lambda intake: intake.receive([passed(3, 3)]), {3}),
    "holes in two partitions": (lambda intake: intake.receive([passed(3, 3), passed(5, 9)]), {3, 5}),
    "a trimmed stream": (lambda intake: intake.receive([passed(2, 1000), passed(2, 1001)]), {2}),
    "another term": (lambda intake: intake.receive([passed(1, 7, term=2), passed(1, 8, term=2)]), {1}),
    "another tracker": (
        lambda intake: intake.receive([passed(partition, 1, 2, "resync") for partition in range(PARTITIONS)]),
        set(range(PARTITIONS)),
    ),
    "a lost connection": (
        lambda intake: intake.receive(Interruption(frozenset(range(PARTITIONS)))),
        set(range(PARTITIONS)),
    ),
    "a stream that began anew": (lambda intake: intake.receive(Interruption(frozenset({4}))), {4}),
}


@pytest.mark.parametrize("sign", SIGNS)
async def test_each_sign_of_a_loss_is_one_check_of_what_it_concerns(following: Following, sign: str) -> None:
    tell, partitions = SIGNS[sign]
    tell(following.intake)
    await settled(lambda: bool(following.checked))
    await following.quiet()
    assert following.checked == [of(partitions)]


async def test_all_signs_of_one_moment_are_one_check(following: Following) -> None:
    for tell, _ in SIGNS.values():
        tell(following.intake)
    await settled(lambda: bool(following.checked))
    await following.quiet()
    assert following.checked == [set(SESSIONS)]


async def test_signs_that_come_while_a_check_is_under_way_are_one_more(following: Following) -> None:
    following.source.check_gate.clear()
    SIGNS["a hole"][0](following.intake)
    await settled(lambda: bool(following.checked))
    for name in ("a lost connection", "a trimmed stream", "a stream that began anew"):
        SIGNS[name][0](following.intake)
        await following.quiet()
    following.source.check_gate.set()
    await settled(lambda: len(following.checked) == 2)
    await following.quiet()
    assert following.checked == [of({3}), set(SESSIONS)]


async def test_what_is_in_order_or_repeated_is_no_loss(following: Following) -> None:
    following.intake.receive([passed(0, 2), passed(0, 3), passed(0, 3), passed(0, 2)])
    await following.quiet()
    assert following.checked == []

"""For how long a credential that was looked up is taken on trust, and what an ending does to a look-up."""

import asyncio

import pytest

from services.gateway.identity.authentication import KEPT_SECONDS, MOST_KEPT, KeptCallers
from services.gateway.identity.caller import Caller
from shared.contracts.identity import Identity
from tests.support.waiting import eventually


def caller(user: str, credential: str) -> Caller:
    """Someone, by a credential."""
    return Caller(Identity(user=user, credential=credential), username=user)


ANN, BOB = caller("ann", "session:1"), caller("bob", "token:1")


class Table:
    """Who each secret stands for; counts the look-ups, and holds them up while it is closed."""

    def __init__(self, **found: Caller) -> None:
        self.found = found
        self.looked_up = 0
        self.open = asyncio.Event()
        self.open.set()

    async def of(self, kept: KeptCallers, secret: str, kind: str = "token") -> Caller | None:
        """Asks as a request does."""

        async def look_up() -> Caller | None:
            self.looked_up += 1
            found = self.found.get(secret)
            await self.open.wait()
            return found

        return await kept.caller(kind, secret, look_up)

    async def has_been_asked(self) -> bool:
        """Whether anything was looked up."""
        return self.looked_up > 0


async def test_it_is_kept_until_its_time_is_over() -> None:
    clock, table = [0.0], Table(secret=ANN)
    kept = KeptCallers(lambda: clock[0])
    assert await table.of(kept, "secret") is ANN
    clock[0] = KEPT_SECONDS - 0.001
    assert await table.of(kept, "secret") is ANN
    assert table.looked_up == 1
    assert await table.of(kept, "another") is None
    clock[0] = KEPT_SECONDS
    assert await table.of(kept, "secret") is ANN
    assert table.looked_up == 3


async def test_a_secret_of_one_kind_is_none_of_another() -> None:
    kept, table = KeptCallers(lambda: 0.0), Table(secret=ANN)
    assert await table.of(kept, "secret", "session") is ANN
    assert await Table().of(kept, "secret", "token") is None


async def test_an_ending_drops_what_it_names() -> None:
    kept, table = KeptCallers(lambda: 0.0), Table(a=ANN, b=caller("ann", "token:2"), c=BOB)

    async def are_kept() -> list[bool]:
        nothing = Table()
        return [await nothing.of(kept, secret) is not None for secret in "abc"]

    for secret in "abc":
        await table.of(kept, secret)
    kept.forget("ann", ("session:1",))
    assert await are_kept() == [False, True, True]
    kept.forget("bob", ("session:1",))
    assert await are_kept() == [False, True, True]
    kept.forget("ann", ())
    assert await are_kept() == [False, False, True]


@pytest.mark.parametrize("credentials", [(), ("session:1",)])
async def test_an_ending_overtakes_a_look_up(credentials: tuple[str, ...]) -> None:
    """What it found is out of date: nobody goes on with it, neither a request nor a connection."""
    kept, table = KeptCallers(lambda: 0.0), Table(secret=ANN)
    table.open.clear()
    asking = asyncio.create_task(table.of(kept, "secret"))
    await eventually(table.has_been_asked)
    del table.found["secret"]
    kept.forget("ann", credentials)
    table.open.set()
    assert await asking is None
    assert await table.of(kept, "secret") is None


@pytest.mark.parametrize(("user", "credentials"), [("bob", ()), ("ann", ("session:2",))])
async def test_anothers_ending_does_not(user: str, credentials: tuple[str, ...]) -> None:
    """Or whoever signs in and out all the time would have everybody looked up again."""
    kept, table = KeptCallers(lambda: 0.0), Table(secret=ANN)
    table.open.clear()
    asking = asyncio.create_task(table.of(kept, "secret"))
    await eventually(table.has_been_asked)
    kept.forget(user, credentials)
    table.open.set()
    assert await asking is ANN
    assert await table.of(kept, "secret") is ANN
    assert table.looked_up == 1


async def test_nobody_is_kept_and_the_number_is_bounded() -> None:
    kept = KeptCallers(lambda: 0.0)
    table = Table(**{str(number): ANN for number in range(MOST_KEPT + 1)})
    for _ in range(2):
        assert await table.of(kept, "nothing") is None
    assert table.looked_up == 2
    for number in range(MOST_KEPT + 1):
        await table.of(kept, str(number))
    table.looked_up = 0
    await table.of(kept, str(MOST_KEPT))
    await table.of(kept, "1")
    assert table.looked_up == 0
    await table.of(kept, "0")
    assert table.looked_up == 1

"""What a process that is told to stop does, and for how long."""

import asyncio
import logging

import pytest

from shared.draining import ENDING_SECONDS, Draining
from shared.process import report
from shared.settings import Settings


async def test_it_is_not_ready_from_the_first_moment() -> None:
    draining = Draining(60)
    told: list[tuple[int, dict[str, object]]] = []

    async def step() -> None:
        told.append(report(draining.reasons))

    async with draining.by(step):
        assert report(draining.reasons) == (200, {"status": "ready"})
        await draining.run()
    ((status, body),) = told
    assert (status, body["status"]) == (503, "draining")


async def test_one_that_starts_or_ends_has_nothing_to_do() -> None:
    done: list[str] = []

    async def step() -> None:
        done.append("step")

    draining = Draining(60)
    async with draining.by(step):
        pass
    await draining.run()
    assert (draining.begun, done) == (True, [])


async def test_it_takes_no_longer_than_its_time(caplog: pytest.LogCaptureFixture) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    draining = Draining(0.01)
    with caplog.at_level(logging.WARNING):
        async with draining.by(endless):
            await draining.run()
    assert "what is left is dropped" in caplog.text


async def test_one_that_fails_stops_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    async def step() -> None:
        raise RuntimeError

    draining = Draining(60)
    async with draining.by(step):
        await draining.run()
    assert "draining failed" in caplog.text


def test_its_time_is_what_the_settings_give_it() -> None:
    draining = Draining.of(Settings(drain_pause=3, drain_seconds=7))
    assert draining._seconds == 10 + ENDING_SECONDS


@pytest.mark.parametrize(
    ("reasons", "status", "word"),
    [
        ({}, 200, "ready"),
        ({"degraded": "x"}, 200, "degraded"),
        ({"redis": "x"}, 503, "starting"),
        ({"redis": "x", "degraded": "x"}, 503, "starting"),
        ({"draining": "x", "redis": "x"}, 503, "draining"),
        ({"draining": "x", "degraded": "x"}, 503, "draining"),
    ],
)
def test_what_is_told_of_it(reasons: dict[str, str], status: int, word: str) -> None:
    found, body = report(lambda: reasons)
    assert (found, body["status"]) == (status, word)

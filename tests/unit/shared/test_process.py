"""What a process answers on its metrics port."""

import aiohttp
import pytest

from shared.process import serve_health
from shared.settings import Settings


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1", 200), ("localhost:9", 200), ("probe.test", 200), ("evil.test", 403), ("127.0.0.1.evil.test", 403)],
)
async def test_only_hosts_that_are_served_are_told_the_reasons(host: str, status: int) -> None:
    settings = Settings(metrics_port=0, allowed_hosts="Probe.test")
    runner = await serve_health(settings, lambda: {"degraded": "a reason"})
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession(headers={"Host": host}) as session:
            async with session.get(f"http://127.0.0.1:{port}/ready") as answer:
                assert answer.status == status
                assert ("a reason" in await answer.text()) == (status == 200)
            async with session.get(f"http://127.0.0.1:{port}/health") as answer:
                assert answer.status == 200
    finally:
        await runner.cleanup()

"""What a process answers on its metrics port."""

import aiohttp
import pytest

from shared.metrics.declaring import Metrics
from shared.process import serve_health
from shared.settings import Settings


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1", 200), ("localhost:9", 200), ("probe.test", 200), ("evil.test", 403), ("127.0.0.1.evil.test", 403)],
)
async def test_only_hosts_that_are_served_are_told_the_reasons(host: str, status: int) -> None:
    settings = Settings(metrics_port=0, allowed_hosts="Probe.test")
    runner = await serve_health(settings, lambda: {"degraded": "a reason"}, Metrics("probe").registry)
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession(headers={"Host": host}) as session:
            async with session.get(f"http://127.0.0.1:{port}/ready") as answer:
                assert answer.status == status
                assert ("a reason" in await answer.text()) == (status == 200)
            async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                assert answer.status == status
                assert ("kandev_build_info" in await answer.text()) == (status == 200)
            async with session.get(f"http://127.0.0.1:{port}/health") as answer:
                assert answer.status == 200
    finally:
        await runner.cleanup()


async def test_figures_are_told_to_whoever_names_the_process_by_its_address() -> None:
    runner = await serve_health(Settings(metrics_port=0), dict, Metrics("probe").registry)
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession(headers={"Host": "172.18.0.5:9100"}) as session:
            async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                assert answer.status == 200
            async with session.get(f"http://127.0.0.1:{port}/ready") as answer:
                assert answer.status == 403
    finally:
        await runner.cleanup()

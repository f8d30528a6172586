"""What is measured has a core for itself, where there are two."""

import os
import sys

from tests.bench.cores import apart
from tests.bench.process import Program


def _program() -> Program:
    return Program(sys.executable, "-c", "import sys; sys.stdin.read()")


async def test_only_the_measured_program_has_the_first_core() -> None:
    available = os.sched_getaffinity(0)
    first = {min(available)}
    others = available - first or first
    async with _program() as before, _program() as measured:
        with apart() as on_its_own_core:
            on_its_own_core(measured)
            async with _program() as started_inside:
                pids = [process.process.pid for process in (before, started_inside)]
                assert [os.sched_getaffinity(pid) for pid in (0, *pids)] == [others] * 3
                assert os.sched_getaffinity(measured.process.pid) == first
        assert os.sched_getaffinity(measured.process.pid) == available
        assert os.sched_getaffinity(before.process.pid) == available
    assert os.sched_getaffinity(0) == available

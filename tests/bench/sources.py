"""What capture costs those who write: commits a second with triggers and tracker, beside the same tables without."""

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from deploy.local.programs import postgres_programs
from tests.bench.figures import Figure, Target, median
from tests.bench.ground import Ground
from tests.bench.process import output_of
from tests.bench.writing import CONTENT_BYTES, seed

WRITERS = (8, 32)
SESSIONS = 1000
MESSAGES_EACH = 10
ROUNDS = 5
"""Pairs of neighbouring runs: the load of a shared machine changes from one second to the next."""

# Nine updates of 1 KiB to one insert, each a transaction.
_SCRIPT = f"""
\\set session random(1, {SESSIONS})
\\set message random(1, {MESSAGES_EACH})
\\set kind random(1, 10)
\\if :kind < 10
UPDATE task_session_messages SET content = repeat(chr(65 + :message), {CONTENT_BYTES}), updated_at = clock_timestamp()
 WHERE id = 'many-' || :session || '-' || :message;
\\else
INSERT INTO task_session_messages (id, task_session_id, task_id, author_type, content, created_at, updated_at)
VALUES (gen_random_uuid()::text, 'many-' || :session, 'bench', 'agent', repeat('y', {CONTENT_BYTES}),
        clock_timestamp(), clock_timestamp());
\\endif
"""


async def measure(ground: Ground, seconds: float) -> Sequence[Figure]:
    """Both databases in turn, under the same load."""
    for pool in (ground.pool, ground.bare_pool):
        await seed(pool, "many", SESSIONS, MESSAGES_EACH)
        await pool.execute("VACUUM ANALYZE")
    await ground.track()
    script = ground.folder / "script.sql"
    script.write_text(_SCRIPT)
    tracker = ground.services["revision"]
    figures: list[Figure] = []
    costs: list[float] = []
    for writers in WRITERS:
        pairs: list[tuple[float, float]] = []
        for number in range(ROUNDS):
            found: dict[str, float] = {}
            for database in (ground.database, ground.bare)[:: 1 if number % 2 else -1]:
                before = tracker.cpu_seconds()
                count, found[database] = await _commits(database, script, writers, seconds)
                if database == ground.database:
                    await ground.caught_up()
                    costs.append((tracker.cpu_seconds() - before) / count * 1e6)
            pairs.append((found[ground.database], found[ground.bare]))
        captured, bare = sorted(pairs, key=_ratio)[ROUNDS // 2]
        figures.append(
            Figure(
                f"commits by {writers} writers with triggers and tracker",
                captured,
                "/s",
                bare,
                f"same tables without; middle of {ROUNDS} pairs",
                Target("at least", 0.8),
            )
        )
    return (*figures, Figure("processor time of the tracker per one-row transaction", median(costs), "µs"))


def _ratio(pair: tuple[float, float]) -> float:
    return pair[0] / pair[1]


async def _commits(database: str, script: Path, writers: int, seconds: float) -> tuple[int, float]:
    """How many transactions there were, and how many a second."""
    address = urlsplit(database)
    programs = postgres_programs(script.parent, None)
    command = [str(programs.folder / "pgbench"), "-n", "-M", "prepared", "-f", str(script)]
    command += ["-c", str(writers), "-j", "1", "-T", str(max(1, int(seconds)))]
    command += ["-h", str(address.hostname), "-p", str(address.port), "-U", str(address.username)]
    printed = await output_of([*command, address.path.removeprefix("/")], {"PGPASSWORD": str(address.password)})
    count = re.search(r"transactions actually processed: (\d+)", printed)
    rate = re.search(r"tps = ([\d.]+)", printed)
    if count is None or rate is None:
        raise RuntimeError(f"pgbench said something else than expected, {len(printed)} characters")
    return int(count[1]), float(rate[1])

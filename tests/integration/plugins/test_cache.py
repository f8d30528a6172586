"""The unpacked packages: made once, checked before use, bounded."""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr

from services.gateway.control import Control
from services.gateway.plugins import cache
from services.gateway.plugins.archive import PackageRefused
from services.gateway.plugins.cache import Cache, PackageDamaged
from services.gateway.plugins.lifecycle import Plugins
from services.gateway.plugins.registry import Registry
from services.gateway.plugins.store import PackageMissing, Store
from shared.broker.guarded import open_broker
from shared.contracts.errors import RequestFailed
from shared.database import open_pool
from tests.integration.plugins.folders import names
from tests.support.plugins import manifest, package

ADD = "INSERT INTO gateway.plugin_packages (hash, plugin_id, version, archive) VALUES ($1, 'p', '1', $2)"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    pool = await open_pool(SecretStr(database_url), 4, "test")
    yield pool
    await pool.close()


async def stored(pool: asyncpg.Pool, **files: bytes) -> str:
    """The hash of a new package with these files."""
    archive = package(manifest("p"), **files)
    name = hashlib.sha256(archive).hexdigest()
    await pool.execute(ADD, name, archive)
    return name


async def test_a_package_of_several_parts_is_unpacked_once_for_all_who_ask(
    pool: asyncpg.Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.plugins.store.SLICE_BYTES", 100)
    name = await stored(pool, **{"ui/noise": os.urandom(5000)})
    caches = [Cache(tmp_path, Store(pool)) for _ in range(2)]
    found = await asyncio.gather(*(each.files(name) for each in caches for _ in range(5)))
    assert all(set(files) >= {"manifest.yaml", "ui/bundle.js", "ui/noise"} for files in found)
    assert all(files["ui/noise"].path.stat().st_size == 5000 for files in found)
    assert names(tmp_path) == [name]


async def test_what_is_not_there_or_not_it_is_told_and_leaves_nothing(pool: asyncpg.Pool, tmp_path: Path) -> None:
    good = package(manifest("p"))
    for name, archive, expected in (
        ("absent", None, PackageMissing),
        ("empty", b"", PackageMissing),
        ("noise", b"no archive", PackageRefused),
        ("another", good, PackageDamaged),
    ):
        if archive is not None:
            await pool.execute(ADD, name, archive)
        with pytest.raises(expected):
            await Cache(tmp_path, Store(pool)).files(name)
    assert names(tmp_path) == []


@pytest.mark.parametrize("damage", ["changed", "missing", "no index", "bad index"])
async def test_a_new_process_looks_before_it_uses(pool: asyncpg.Pool, tmp_path: Path, damage: str) -> None:
    name = await stored(pool)
    files = await Cache(tmp_path, Store(pool)).files(name)
    index = tmp_path / name / "index.json"
    match damage:
        case "changed":
            files["ui/bundle.js"].path.write_bytes(b"other")
        case "missing":
            files["ui/bundle.js"].path.unlink()
        case "no index":
            index.unlink()
        case _:
            index.write_bytes(b"[")
    files = await Cache(tmp_path, Store(pool)).files(name)
    assert files["ui/bundle.js"].path.read_bytes() == b'export default "1.0.0";\n'
    assert names(tmp_path) == [name]


async def test_the_longest_unused_go_first_and_abandoned_work_goes(
    pool: asyncpg.Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(pool)
    made = [await stored(pool, **{"ui/noise": os.urandom(10_000)}) for _ in range(4)]
    for age, name in enumerate(made[:3]):
        await Cache(tmp_path, store).files(name)
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    old, young = tmp_path / f"a{cache._UNFINISHED}", tmp_path / f"b{cache._UNFINISHED}"
    for folder in (old, young):
        folder.mkdir()
    os.utime(old, (1000, 1000))
    monkeypatch.setattr(cache, "MAX_BYTES", 25_000)
    await Cache(tmp_path, store).files(made[3])
    assert names(tmp_path) == sorted((made[2], made[3], young.name))


async def test_one_package_is_served_even_if_it_is_larger_than_the_cache(
    pool: asyncpg.Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAX_BYTES", 10)
    made = [await stored(pool, **{"ui/noise": os.urandom(100)}) for _ in range(2)]
    for name in made:
        assert (await Cache(tmp_path, Store(pool)).files(name))["ui/noise"].path.exists()
    assert names(tmp_path) == [made[1]]


async def test_what_an_earlier_installation_lacks_is_not_held_against_the_next(
    pool: asyncpg.Pool, redis_url: str, tmp_path: Path
) -> None:
    store = Store(pool)
    registry = Registry(store)
    plugins = Plugins(store, registry, Cache(tmp_path, store), Control(open_broker(SecretStr(redis_url))), "0.95.0")
    await pool.execute(ADD, "first", b"gone soon")
    await pool.execute(
        "INSERT INTO gateway.plugins (id, version, package_hash, manifest, status) "
        "VALUES ('p', '1.0.0', 'first', $1, 'active')",
        json.dumps(manifest("p")),
    )
    await registry.refresh()
    known = registry.active("p")
    assert known is not None
    await pool.execute(
        "UPDATE gateway.plugins SET package_hash = $1, installed_at = clock_timestamp()", await stored(pool)
    )
    await pool.execute("DELETE FROM gateway.plugin_packages WHERE hash = 'first'")
    with pytest.raises(RequestFailed, match="plugin is not active"):
        await plugins.files(known)
    assert await pool.fetchval("SELECT status FROM gateway.plugins") == "active"

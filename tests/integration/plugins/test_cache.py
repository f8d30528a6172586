"""The unpacked packages: made once, checked before use, bounded."""

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr

from services.gateway.control import Control
from services.gateway.plugins import cache
from services.gateway.plugins.archive import PackageRefused
from services.gateway.plugins.cache import Cache, CacheUnusable, PackageDamaged
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


@pytest.mark.parametrize("damage", ["changed", "missing", "no index", "bad index", "list", "pipe", "a file"])
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
        case "bad index":
            index.write_bytes(b"[")
        case "list":
            index.write_bytes(b'["ui/bundle.js"]')
        case "pipe":
            index.unlink()
            os.mkfifo(index)
        case _:
            shutil.rmtree(tmp_path / name)
            (tmp_path / name).write_bytes(b"")
    files = await Cache(tmp_path, Store(pool)).files(name)
    assert files["ui/bundle.js"].path.read_bytes() == b'export default "1.0.0";\n'
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("other", ["edited", "of the same size", "link", "folder", "pipe", "gone"])
async def test_a_file_that_is_another_one_later_is_not_opened_and_made_anew(
    pool: asyncpg.Pool, tmp_path: Path, other: str
) -> None:
    name = await stored(pool)
    kept = Cache(tmp_path, Store(pool))
    found = (await kept.files(name))["ui/bundle.js"]
    content, before = found.path.read_bytes(), found.path.stat()
    with found.open() as file:
        assert file.read() == content
    if other not in {"edited", "of the same size"}:
        found.path.unlink()
    match other:
        case "edited":
            found.path.write_bytes(content + b"alert(1)")
        case "of the same size":
            found.path.write_bytes(b"x" * len(content))
            os.utime(found.path, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "link":
            (tmp_path / "elsewhere").write_bytes(content)
            found.path.symlink_to(tmp_path / "elsewhere")
        case "folder":
            found.path.mkdir()
        case "pipe":
            os.mkfifo(found.path)
    with pytest.raises(OSError):  # noqa: PT011 - of several kinds
        found.open()
    kept.forget(name)
    with (await kept.files(name))["ui/bundle.js"].open() as file:
        assert file.read() == content


@pytest.mark.parametrize("obstacle", ["file", "link"])
async def test_a_folder_that_cannot_be_used_is_told_as_that_and_logged_once(
    pool: asyncpg.Pool, tmp_path: Path, caplog: pytest.LogCaptureFixture, obstacle: str
) -> None:
    name = await stored(pool)
    folder = tmp_path / "cache"
    if obstacle == "file":
        folder.write_bytes(b"")
    else:
        folder.symlink_to(folder)
    kept = Cache(folder, Store(pool))
    for _ in range(3):
        with pytest.raises(CacheUnusable, match="the folder of unpacked plugins cannot be used: "):
            await kept.files(name)
    assert [record.name for record in caplog.records] == ["services.gateway.plugins.cache"]
    folder.unlink()
    assert "ui/bundle.js" in await kept.files(name)


async def test_a_folder_that_cannot_be_used_leaves_the_plugin_as_it_is(
    pool: asyncpg.Pool, redis_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    folder.write_bytes(b"")
    store = Store(pool)
    registry = Registry(store)
    plugins = Plugins(store, registry, Cache(folder, store), Control(open_broker(SecretStr(redis_url))), "0.95.0")
    await pool.execute(
        "INSERT INTO gateway.plugins (id, version, package_hash, manifest, status) VALUES ('p', '1.0.0', $1, $2, $3)",
        await stored(pool),
        json.dumps(manifest("p")),
        "active",
    )
    await plugins.examine()
    known = registry.active("p")
    assert known is not None
    with pytest.raises(RequestFailed, match="cannot be used") as refused:
        await plugins.files(known)
    assert refused.value.failure.code == "unavailable"
    await pool.execute("UPDATE gateway.plugins SET status = 'disabled'")
    with pytest.raises(RequestFailed, match="cannot be used") as refused:
        await plugins.enable("p")
    assert refused.value.failure.code == "unavailable"
    row = await pool.fetchrow("SELECT status, last_error FROM gateway.plugins")
    assert tuple(row) == ("disabled", None)
    folder.unlink()
    assert "ui/bundle.js" in await plugins.files(known)


def test_folders_and_whole_blocks_count(tmp_path: Path) -> None:
    before = cache._size(tmp_path)
    for number in range(10):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "one").write_bytes(b"1")
    found = [path.lstat() for path in (tmp_path, *tmp_path.rglob("*"))]
    assert cache._size(tmp_path) >= max(sum(each.st_blocks for each in found) * 512, before + 10)
    assert cache._size(tmp_path) > sum(each.st_size for each in found if each.st_size == 1)


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
    monkeypatch.setattr(cache, "MAX_BYTES", int(2.5 * cache._size(tmp_path / made[0])))
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

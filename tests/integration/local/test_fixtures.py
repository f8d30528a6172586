"""The servers that other tests stand on."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from urllib.parse import urlsplit

import psycopg
import redis

from deploy.local.postgres import PostgresServer
from deploy.local.redis import RedisServer


def test_the_shared_database_server_decodes_logically(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        assert connection.execute("SELECT usesuper FROM pg_user WHERE usename = current_user").fetchone() == (True,)


def test_an_empty_database_is_empty_and_utf8(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)


def test_a_database_with_a_slot_and_a_session_is_dropped_all_the_same(
    postgres_url: str, make_database: Callable[[], AbstractContextManager[str]]
) -> None:
    with make_database() as url:
        name = urlsplit(url).path[1:]
        left_open = psycopg.connect(url, autocommit=True)
        left_open.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
    left_open.close()
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_database WHERE datname = %s", [name]).fetchone() == (0,)


def test_the_shared_redis_may_be_flushed(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set("key", "value")
        client.flushall()
        assert client.dbsize() == 0


def test_a_private_database_server_keeps_its_data_over_a_crash(postgres_server: PostgresServer) -> None:
    port = postgres_server.port
    with psycopg.connect(postgres_server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    postgres_server.kill()
    assert not postgres_server.alive
    assert not postgres_server.answers()
    postgres_server.start()
    assert postgres_server.port == port
    with psycopg.connect(postgres_server.url) as connection:
        assert connection.execute("SELECT one FROM kept").fetchone() == (1,)


def test_a_private_redis_comes_back_empty_on_its_port(redis_server: RedisServer) -> None:
    url = redis_server.url
    with redis.Redis.from_url(url) as client:
        client.set("key", "value")
    redis_server.kill()
    assert not redis_server.answers()
    redis_server.start()
    assert redis_server.url == url
    with redis.Redis.from_url(url) as client:
        assert client.get("key") is None


def test_a_migrated_database_is_a_copy_of_its_own(database_url: str, empty_database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT to_regclass('task_session_messages') IS NOT NULL").fetchone() == (True,)
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("SELECT to_regclass('task_session_messages') IS NULL").fetchone() == (True,)

"""From where requests may come."""

import pytest

from shared.origins import refusal

ALLOWED = frozenset({"console.example.com"})


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8080", None),
        ("LOCALHOST", None),
        ("127.0.0.1:8080", None),
        ("127.8.9.10", None),
        ("[::1]:8080", None),
        ("[::1]", None),
        ("app.localhost:8080", None),
        ("console.example.com", None),
        ("Console.Example.Com:8443", None),
        ("127.0.0.1:8080", "http://localhost:3000"),
        ("[::1]:8080", "http://127.0.0.1"),
        ("localhost:8080", "https://[::1]:9"),
        ("localhost", "http://LOCALHOST:1"),
        ("console.example.com:8080", "https://console.example.com"),
    ],
)
def test_may_pass(host: str, origin: str | None) -> None:
    assert refusal(host, origin, ALLOWED) is None


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        ":8080",
        "evil.example.com",
        "evil.example.com:8080",
        "localhost.evil.example.com",
        "127.0.0.1.evil.example.com",
        "evil-localhost",
        "192.168.0.10:8080",
        "0.0.0.0:8080",
        "[::]:8080",
        "[fe80::1]",
        "127.1",
        "2130706433",
        "0x7f000001",
        "localhost.",
        "127.0.0.1.",
        "console.example.com.",
        "sub.console.example.com",
        "localhost:port",
        "localhost:99999",
        "[::1",
        "user@localhost",
        "@localhost",
        "localhost/path",
        "localhost?query=1",
        "localhost#part",
        "localhost, evil.example.com",
    ],
)
def test_a_host_that_is_not_served(host: str | None) -> None:
    assert refusal(host, None, ALLOWED) is not None
    assert refusal(host, "http://localhost", ALLOWED) is not None


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example.com",
        "http://localhost.evil.example.com",
        "http://evil.example.com:8080",
        "https://console.example.com",
        "http://192.168.0.10",
        "http://localhost.",
        "http://localhost/",
        "http://localhost/path",
        "http://user@localhost",
        "http://user:secret@localhost",
        "http://localhost@evil.example.com",
        "http://localhost:port",
        "http://localhost:99999",
        "http://",
        "http://[::1",
        "localhost",
        "//localhost",
        "file://localhost",
        "chrome-extension://localhost",
        "javascript:localhost",
        "http://localhost http://evil.example.com",
    ],
)
def test_a_foreign_or_malformed_origin(origin: str) -> None:
    assert refusal("localhost:8080", origin, ALLOWED) is not None


def test_a_listed_host_takes_its_own_pages_only() -> None:
    assert refusal("console.example.com", "http://localhost", ALLOWED) is not None
    assert refusal("console.example.com", "https://console.example.com.evil.example.com", ALLOWED) is not None


def test_any_host_may_be_named_where_none_is_listed() -> None:
    for host in ("evil.example.com", "192.168.0.10:8080", None, "", "localhost:port"):
        assert refusal(host, None, None) is None
    assert refusal("example.com:8080", "https://example.com", None) is None
    assert refusal("127.0.0.1:8080", "http://localhost:3000", None) is None
    for host, origin in (
        ("example.com", "https://evil.example.com"),
        ("example.com", "http://localhost"),
        ("localhost", "https://example.com"),
        ("example.com", "null"),
        ("example.com", "https://example.com/"),
        (None, "https://example.com"),
        ("", "null"),
    ):
        assert refusal(host, origin, None) is not None

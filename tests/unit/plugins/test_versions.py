"""Versions of releases."""

import pytest

from services.gateway.plugins.versions import Release, at_least, release, unmet_requirement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2.3", (1, 2, 3)),
        ("v0.95", (0, 95, 0)),
        ("V7", (7, 0, 0)),
        ("0.091.01", (0, 91, 1)),
        ("", None),
        ("v", None),
        ("next", None),
        ("1.2.3.4", None),
        ("1..2", None),
        ("1.2.", None),
        ("1.2.3-rc1", None),
        ("v0.95.0-12-gabcdef", None),
        (" 1.2", None),
        ("1.2\n", None),
        ("vv1", None),
        ("1.٢", None),
        ("1" * 5000, None),
    ],
)
def test_what_names_a_release(text: str, expected: Release | None) -> None:
    assert release(text) == expected


def test_releases_are_compared_by_number() -> None:
    assert at_least("0.91.1", (0, 91, 1))
    assert at_least("0.100", (0, 91, 1))
    assert at_least("1", (0, 91, 1))
    assert not at_least("0.91", (0, 91, 1))
    assert not at_least("0.9.9", (0, 91, 1))
    assert not at_least("next", (0, 0, 0))


@pytest.mark.parametrize(
    ("minimum", "running"),
    [("0.95.0", "0.95.0"), ("v0.95", "0.95.0"), ("0.9", "0.95.0"), ("", "0.95.0"), ("next", "0.95.0"), ("9.9", "dev")],
)
def test_what_a_host_satisfies(minimum: str, running: str) -> None:
    assert unmet_requirement(minimum, running) is None


def test_a_newer_requirement_names_both_versions() -> None:
    assert unmet_requirement("v0.96", "0.95.0") == "plugins: requires kandev >= v0.96, running 0.95.0"

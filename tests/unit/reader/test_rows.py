"""What stored metadata says."""

from typing import Any

import pytest

from services.reader.rows import parse_metadata


@pytest.mark.parametrize(
    ("stored", "parsed"),
    [
        (None, None),
        ("", None),
        ("null", None),
        ("[1]", None),
        ('"text"', None),
        ("7", None),
        ("{", None),
        ("NaN", None),
        ("{}", {}),
        (' {"a": {"b": [1, null, "é"]}} ', {"a": {"b": [1, None, "é"]}}),
    ],
)
def test_only_an_object_is_metadata(stored: str | None, parsed: dict[str, Any] | None) -> None:
    assert parse_metadata(stored) == parsed

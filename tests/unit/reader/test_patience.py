"""How long a read waits."""

from services.reader.patience import PAUSES
from services.reader.pools import PLANNER, _with_settings


def test_a_source_that_is_behind_is_waited_for_a_quarter_of_a_second() -> None:
    assert round(sum(PAUSES), 6) == 0.25
    assert list(PAUSES) == sorted(PAUSES)


def test_the_planner_settings_join_those_of_the_address() -> None:
    url = _with_settings("postgresql://u:p%40ss@h:5/db?sslmode=require")
    assert url.startswith("postgresql://u:p%40ss@h:5/db?sslmode=require&")
    for name, value in PLANNER.items():
        assert f"{name}={value}" in url

"""Whether a tracker was seen."""

import pytest

from services.gateway.outlook import unseen


@pytest.mark.parametrize("seconds", [0.0, 9.9, 10.0, -3.0])
def test_a_tracker_that_leads(seconds: float) -> None:
    assert unseen(seconds, 10.0) == ""


@pytest.mark.parametrize(("seconds", "told"), [(10.1, "for 10 s"), (3600.0, "for 3600 s"), (None, "yet")])
def test_a_tracker_that_is_away(seconds: float | None, told: str) -> None:
    assert f"no tracker was seen {told}: clients follow by the checks" in unseen(seconds, 10.0)

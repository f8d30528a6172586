"""Figures of many crowds as those of one, and what is asked of a rolling restart."""

import pytest

from tests.upheaval.acknowledged import Acknowledged
from tests.upheaval.figures import Figures, Row, line, table, together, verdict

CALM = Figures(
    clients=3,
    live=3,
    gaps=0,
    resets=0,
    repairs=0,
    most_repairs=0,
    most_excess=0,
    resumes=0,
    lost=0,
    behind=0.0,
    not_live=0.0,
    writes=10,
    retries=0,
    done=0,
)


def test_counts_add_up_and_of_the_longest_and_the_most_the_greatest_counts() -> None:
    one = CALM.model_copy(update={"live": 2, "gaps": 1, "resets": 3, "repairs": 2, "most_repairs": 2, "behind": 1.5})
    other = CALM.model_copy(update={"repairs": 3, "most_repairs": 1, "most_excess": 1, "not_live": 2.5, "lost": 4})
    assert together([one, other]) == Figures(
        clients=6,
        live=5,
        gaps=1,
        resets=3,
        repairs=5,
        most_repairs=2,
        most_excess=1,
        resumes=0,
        lost=4,
        behind=1.5,
        not_live=2.5,
        writes=20,
        retries=0,
        done=0,
    )


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({}, ["longest behind 0.00 s (at most 10: met)", "one client 0 (at most 1: met)"]),
        ({"behind": 10.01}, ["longest behind 10.01 s (at most 10: missed)", "(at most 1: met)"]),
        ({"not_live": 10.01}, ["longest behind 10.01 s (at most 10: missed)", "(at most 1: met)"]),
        ({"most_repairs": 3, "most_excess": 1}, ["one client 1 (at most 1: met), 3 with those"]),
        ({"most_repairs": 2, "most_excess": 2}, ["one client 2 (at most 1: missed), 2 with those"]),
    ],
)
def test_a_rolling_restart_is_held_to_its_targets(update: dict[str, float], said: list[str]) -> None:
    found = verdict(Row("roll:gateway", CALM.model_copy(update=update), 1.0))
    assert all(part in found for part in said), found


def test_the_clients_that_are_live_stand_in_the_table() -> None:
    row = Row("kill:redis", CALM.model_copy(update={"live": 2}), 7.0)
    assert "2 of 3" in table([row])
    assert line(row).startswith("upheaval kill:redis, live 2 of 3, ")


def test_what_is_above_a_revision_is_known_since_its_first_acknowledgement() -> None:
    acknowledged = Acknowledged()
    assert (acknowledged.newest, acknowledged.first_above(0), len(acknowledged)) == (0, None, 0)
    for revision, at in ((5, 1.0), (5, 2.0), (8, 3.0)):
        acknowledged.add(revision, at)
    assert (acknowledged.newest, len(acknowledged)) == (8, 3)
    assert [acknowledged.first_above(revision) for revision in (4, 5, 7, 8)] == [1.0, 3.0, 3.0, None]

"""What sequences say about losses (T2)."""

import pytest

from services.gateway.receipts.terms import REMEMBERED_TERMS, Arrival, Sequence

IN_ORDER, REPEATED, AFTER_LOSS = Arrival.IN_ORDER, Arrival.REPEATED, Arrival.AFTER_LOSS


@pytest.mark.parametrize(
    ("entries", "arrivals"),
    [
        ([(1, 1), (1, 2), (1, 3)], [IN_ORDER, IN_ORDER, IN_ORDER]),
        ([(1, 7)], [IN_ORDER]),
        ([(1, 7), (1, 8)], [IN_ORDER, IN_ORDER]),
        ([(1, 1), (1, 3), (1, 4)], [IN_ORDER, AFTER_LOSS, IN_ORDER]),
        ([(1, 1), (1, 2), (1, 2), (1, 1)], [IN_ORDER, IN_ORDER, REPEATED, REPEATED]),
        ([(1, 1), (2, 1)], [IN_ORDER, AFTER_LOSS]),
        ([(1, 1), (2, 5), (2, 6)], [IN_ORDER, AFTER_LOSS, IN_ORDER]),
        ([(2, 1), (1, 9), (2, 2), (1, 10)], [IN_ORDER, AFTER_LOSS, IN_ORDER, IN_ORDER]),
        ([(2, 1), (1, 9), (1, 11)], [IN_ORDER, AFTER_LOSS, AFTER_LOSS]),
    ],
)
def test_arrivals(entries: list[tuple[int, int]], arrivals: list[Arrival]) -> None:
    sequence = Sequence()
    assert [sequence.observe(term, number) for term, number in entries] == arrivals


def test_a_resync_opens_a_term_whatever_its_number() -> None:
    sequence = Sequence()
    sequence.observe(9, 40)
    sequence.restart(3, 1)
    assert sequence.observe(3, 2) is IN_ORDER
    sequence.restart(9, 1)
    assert sequence.observe(9, 2) is IN_ORDER
    assert sequence.observe(9, 4) is AFTER_LOSS


def test_only_some_terms_are_remembered() -> None:
    sequence = Sequence()
    for term in range(1, REMEMBERED_TERMS + 2):
        sequence.restart(term, 1)
    assert sequence.observe(REMEMBERED_TERMS + 1, 2) is IN_ORDER
    assert sequence.observe(1, 2) is AFTER_LOSS

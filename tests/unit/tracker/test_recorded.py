"""A stream recorded from PostgreSQL 18 (`recorded/`), from bytes to receipts."""

from collections.abc import Iterator
from typing import TypeVar

import pytest

from services.revision.tracker.assembly import Assembler
from services.revision.tracker.drafts import SessionChange, Transaction
from services.revision.tracker.filling import filled
from services.revision.tracker.pgoutput import Decoder
from services.revision.tracker.receipts import encode
from shared.contracts.receipts import RECEIPT, ChangeReceipt, Receipt, RemovedReceipt, Selection
from tests.unit.tracker.record import recorded

R = TypeVar("R", bound=Receipt)


def transactions() -> Iterator[Transaction]:
    decoder, assembler = Decoder(), Assembler("before")
    for message in map(decoder.decode, recorded()):
        if message is not None and (transaction := assembler.feed(message)) is not None:
            yield transaction


@pytest.fixture
def receipts() -> list[Receipt]:
    return [RECEIPT.validate_json(entry.payload) for transaction in transactions() for entry in encode(transaction)]


def changes(receipts: list[Receipt]) -> list[ChangeReceipt]:
    return [receipt for receipt in receipts if isinstance(receipt, ChangeReceipt)]


def lacking(transaction: Transaction) -> bool:
    """Whether the log left something out."""
    drafts = [draft for draft in transaction.drafts if isinstance(draft, SessionChange)]
    return any(operation.needs_filling for draft in drafts for operation in draft.operations or ())


def test_every_interval_follows_the_one_before(receipts: list[Receipt]) -> None:
    held: dict[str, int] = {}
    for receipt in receipts:
        assert isinstance(receipt, ChangeReceipt | RemovedReceipt)
        assert held.setdefault(receipt.session_id, receipt.base_revision) == receipt.base_revision
        held[receipt.session_id] = receipt.revision
    assert held == {"s1": 9, "s2": 2}


def test_no_transaction_breaks_history() -> None:
    assert [transaction.broken for transaction in transactions() if transaction.broken is not None] == []


def test_times_metadata_and_text_are_those_of_the_contract(receipts: list[Receipt]) -> None:
    turn = changes(receipts)[0].operations[0].turn
    first, second = (operation.message for operation in changes(receipts)[1].operations)
    assert turn is not None
    assert first is not None
    assert second is not None
    assert (turn.started_at, turn.metadata) == ("2026-01-02T01:04:05.678901Z", None)
    assert (first.content, first.metadata, first.prompt_seq) == ('ünïcode "quoted"', '{"n":1.5,"list":[null]}', 1)
    assert (second.content, second.metadata, second.prompt_seq) == ("", None, 0)
    assert (first.created_at, first.turn_id) == ("2026-01-02T03:04:05Z", "turn")


def test_a_large_value_that_was_left_out_makes_the_receipt_incomplete_unless_it_is_filled(
    receipts: list[Receipt],
) -> None:
    assert [change.complete for change in changes(receipts)][:4] == [True, True, True, False]
    update = next(transaction for transaction in transactions() if lacking(transaction))
    row = {"content": "as it was", "metadata": "not taken: the log has it"}
    [draft] = filled(update.drafts, {("message", "large"): row})
    [entry] = encode(Transaction(1, 1, 1, "e", False, (draft,), None, 0))
    receipt = RECEIPT.validate_json(entry.payload)
    assert isinstance(receipt, ChangeReceipt)
    [operation] = receipt.operations
    assert operation.message is not None
    assert (operation.message.content, operation.message.metadata) == ("as it was", None)


def test_a_moved_row_knows_where_it_was(receipts: list[Receipt]) -> None:
    left, arrived = (change for change in changes(receipts) if change.operations and change.operations[0].id == "m2")
    was = Selection(session_id="s1", task_id="t", author_type="agent")
    assert [(left.session_id, arrived.session_id)] == [("s1", "s2")]
    assert [(o.kind, o.previous) for o in (*left.operations, *arrived.operations)] == [("remove", was), ("upsert", was)]


def test_receipts_carry_the_epoch_of_their_place(receipts: list[Receipt]) -> None:
    *before, last = receipts
    assert {receipt.epoch for receipt in before} != {last.epoch}
    assert isinstance(last, RemovedReceipt)
    assert [transaction.minted for transaction in transactions()][-2:] == [True, False]

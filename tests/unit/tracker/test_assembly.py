"""Folding hand-made transactions: what statements in any order must say, and the bounds (T1, T4, R1, R2)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.revision.tracker.assembly import Assembler
from services.revision.tracker.drafts import HistoryBroken, Selected, SessionChange, SessionRemoved, Transaction
from services.revision.tracker.pgoutput import UNCHANGED, Decoder, DecodingError
from services.revision.tracker.transaction import ROW_OVERHEAD
from shared.contracts.receipts import MAX_OPERATIONS, MAX_RECEIPT_BYTES
from tests.unit.tracker import wire
from tests.unit.tracker.wire import MESSAGES, REVISIONS, TURNS, bump, dropped, inserted, message, message_key


def committed(*messages: bytes, budget: int = 1 << 26) -> Transaction:
    """One transaction of these messages, under the epoch "e"."""
    decoder, assembler = Decoder(), Assembler("e", budget)
    stream = [*(wire.relation(oid) for oid in wire.COLUMNS), wire.begin(), *messages, wire.commit()]
    transaction = None
    for decoded in map(decoder.decode, stream):
        assert decoded is not None
        transaction = assembler.feed(decoded)
    assert transaction is not None
    return transaction


def change(transaction: Transaction, session_id: str = "s") -> SessionChange:
    [found] = [
        draft for draft in transaction.drafts if isinstance(draft, SessionChange) and draft.session_id == session_id
    ]
    return found


def said(transaction: Transaction, session_id: str = "s") -> dict[str, bool]:
    """Ids of the operations, and whether each is an upsert."""
    return {operation.id: operation.image is not None for operation in change(transaction, session_id).operations or ()}


def test_a_message_and_a_turn_of_one_id_are_two_rows() -> None:
    transaction = committed(
        wire.insert(MESSAGES, message("x")), bump("s", 1), wire.insert(TURNS, wire.turn("x")), bump("s", 2)
    )
    assert [operation.entity for operation in change(transaction).operations or ()] == ["message", "turn"]
    assert (change(transaction).base, change(transaction).revision) == (1, 3)


def test_a_revision_row_made_late_gives_the_base_it_was_made_with() -> None:
    transaction = committed(wire.insert(MESSAGES, message("x")), inserted("s", 0), bump("s", 0))
    assert (change(transaction).base, change(transaction).revision) == (0, 1)


def test_a_large_value_known_from_the_same_transaction_is_kept() -> None:
    transaction = committed(
        wire.insert(MESSAGES, message("m", content=b"large")),
        bump("s", 1),
        wire.update(MESSAGES, message("m", content=UNCHANGED)),
        bump("s", 2),
    )
    [operation] = change(transaction).operations or ()
    assert operation.image is not None
    assert not operation.needs_filling
    assert operation.image.values[6] == b"large"


def test_a_large_value_that_is_not_known_is_marked() -> None:
    transaction = committed(wire.update(MESSAGES, message("m", content=UNCHANGED)), bump("s", 1))
    [operation] = change(transaction).operations or ()
    assert operation.needs_filling
    assert operation.image is not None
    assert operation.image.missing == ("content",)


def test_a_row_moved_through_three_sessions() -> None:
    transaction = committed(
        wire.update(MESSAGES, message("m", "b"), message_key("m", "a")), bump("a", 1), bump("b", 1),
        wire.update(MESSAGES, message("m", "c"), message_key("m", "b")), bump("b", 2), bump("c", 1),
    )  # fmt: skip
    assert said(transaction, "a") == {"m": False}
    assert said(transaction, "b") == {}
    assert said(transaction, "c") == {"m": True}
    [arrived] = change(transaction, "c").operations or ()
    assert arrived.previous == Selected("a", "t", "agent")


def test_a_row_moved_away_and_deleted() -> None:
    transaction = committed(
        wire.update(MESSAGES, message("m", "b"), message_key("m", "a")), bump("a", 1), bump("b", 1),
        wire.delete(MESSAGES, message_key("m", "b")), bump("b", 2),
    )  # fmt: skip
    assert said(transaction, "a") == {"m": False}
    assert said(transaction, "b") == {}


def test_rows_that_a_cascade_deletes_after_the_revision_row_belong_to_the_removal() -> None:
    transaction = committed(dropped("s", 4), wire.delete(MESSAGES, message_key("m")))
    assert transaction.drafts == (SessionRemoved("s", 4, 5),)
    assert transaction.broken is None


def test_a_row_that_moved_out_of_a_session_before_its_deletion_arrives_whole() -> None:
    transaction = committed(
        wire.update(MESSAGES, message("m", "b"), message_key("m", "a")), bump("a", 1), bump("b", 1), dropped("a", 2)
    )
    assert transaction.drafts[0] == SessionRemoved("a", 1, 3)
    assert said(transaction, "b") == {"m": True}


def test_a_session_deleted_and_made_twice() -> None:
    transaction = committed(
        dropped("s", 4), inserted("s", 5), wire.insert(MESSAGES, message("m")), bump("s", 5),
        wire.delete(MESSAGES, message_key("m")), dropped("s", 6),
        inserted("s", 7), wire.insert(MESSAGES, message("n")), wire.delete(MESSAGES, message_key("n")), bump("s", 7),
    )  # fmt: skip
    assert transaction.drafts == (
        SessionRemoved("s", 4, 5),
        SessionRemoved("s", 5, 7),
        SessionChange("s", 7, 8, ()),
    )


def test_what_was_too_much_before_a_deletion_is_forgotten_with_it() -> None:
    many = [wire.insert(MESSAGES, message(f"m{n}")) for n in range(MAX_OPERATIONS + 1)]
    again = [inserted("s", 6), wire.insert(MESSAGES, message("new")), bump("s", 6)]
    transaction = committed(*many, bump("s", 4), dropped("s", 5), *again)
    assert said(transaction) == {"new": True}


@pytest.mark.parametrize(
    "messages",
    [
        [wire.insert(MESSAGES, message("m"))],
        [wire.insert(MESSAGES, message("m")), inserted("s", 3)],
        [wire.update(MESSAGES, message("m"), message_key("m"))],
        [wire.delete(MESSAGES, message_key("m"))],
        [dropped("s", 3), wire.insert(MESSAGES, message("m"))],
        [
            wire.insert(MESSAGES, message("m")),
            wire.update(REVISIONS, wire.revision("s", 3), wire.revision("s", 3), b"O"),
        ],
    ],
    ids=["insert", "insert with a new session", "update", "delete", "insert after removal", "no advance"],
)
def test_rows_without_their_revision_break_history(messages: list[bytes]) -> None:
    """T4, also beside a session whose changes are covered."""
    transaction = committed(wire.insert(MESSAGES, message("n", "good")), bump("good", 1), *messages)
    assert transaction.broken == HistoryBroken(sessions=1, rows=1)
    assert said(transaction, "good") == {"n": True}


def test_a_move_that_only_one_side_counts_breaks_history() -> None:
    transaction = committed(wire.update(MESSAGES, message("m", "b"), message_key("m", "a")), bump("b", 1))
    assert transaction.broken == HistoryBroken(sessions=1, rows=1)


def test_a_revision_that_goes_back_breaks_history() -> None:
    transaction = committed(wire.update(REVISIONS, wire.revision("s", 3), wire.revision("s", 9), b"O"))
    assert transaction.broken == HistoryBroken(backwards=1)


def test_truncated_revisions_without_a_mint_break_history() -> None:
    assert committed(wire.truncate(REVISIONS)).broken == HistoryBroken(truncations=1)
    assert committed(wire.truncate(REVISIONS), wire.epoch("f")).broken is None


def test_a_truncation_that_advances_nothing_breaks_history() -> None:
    assert committed(wire.truncate(MESSAGES)).broken == HistoryBroken(truncations=1)


def test_a_mint_in_the_same_transaction_mends_what_it_broke() -> None:
    transaction = committed(wire.insert(MESSAGES, message("m")), wire.epoch("f"))
    assert (transaction.broken, transaction.minted, transaction.epoch) == (None, True, "f")


def test_of_two_mints_in_a_transaction_the_last_one_counts() -> None:
    transaction = committed(wire.epoch("f"), bump("s", 1), wire.epoch("g"))
    assert (transaction.minted, transaction.epoch) == (True, "g")


def test_an_epoch_that_is_written_again_is_no_mint() -> None:
    assert not committed(wire.epoch("e")).minted


def test_after_a_truncation_nothing_is_complete() -> None:
    transaction = committed(
        wire.insert(MESSAGES, message("m")),
        bump("s", 1),
        wire.truncate(TURNS),
        wire.insert(MESSAGES, message("n", "r")),
        bump("r", 1),
    )
    assert change(transaction, "s").operations is None
    assert change(transaction, "r").operations is None
    assert transaction.broken is None


def test_too_many_bytes_are_given_up_as_they_come() -> None:
    half = b"x" * (MAX_RECEIPT_BYTES // 2)
    transaction = committed(*(wire.insert(MESSAGES, message(f"m{n}", content=half)) for n in range(50)), bump("s", 1))
    assert change(transaction).operations is None
    assert transaction.size < 10 * ROW_OVERHEAD


def test_past_the_budget_further_sessions_are_incomplete_and_memory_stays() -> None:
    budget = 40 * (ROW_OVERHEAD + 1000)
    stream = []
    for n in range(200):
        stream += [wire.insert(MESSAGES, message(f"m{n}", f"s{n}", b"x" * 1000)), bump(f"s{n}", 1)]
    transaction = committed(*stream, budget=budget)
    complete = [isinstance(draft, SessionChange) and draft.operations is not None for draft in transaction.drafts]
    assert len(complete) == 200
    assert complete == sorted(complete, reverse=True)
    assert 30 <= sum(complete) <= 40
    assert transaction.size <= budget + ROW_OVERHEAD * 201


def test_a_row_that_leaves_an_incomplete_session_arrives_whole() -> None:
    many = [wire.insert(MESSAGES, message(f"m{n}", "a")) for n in range(MAX_OPERATIONS + 1)]
    move = wire.update(MESSAGES, message("m0", "b"), message_key("m0", "a"))
    transaction = committed(*many, bump("a", 1), move, bump("a", 2), bump("b", 1))
    assert change(transaction, "a").operations is None
    assert said(transaction, "b") == {"m0": True}


def test_rows_that_came_and_went_do_not_count_as_operations() -> None:
    stream = []
    for n in range(2 * MAX_OPERATIONS):
        stream += [wire.insert(MESSAGES, message(f"m{n}")), wire.delete(MESSAGES, message_key(f"m{n}"))]
    assert change(committed(*stream, bump("s", 1))).operations == ()


@pytest.mark.parametrize(
    "stream",
    [
        [wire.begin(), wire.begin()],
        [wire.commit()],
        [wire.begin(), wire.relation(REVISIONS), wire.update(REVISIONS, wire.revision("s", 1))],
    ],
    ids=["begin in a transaction", "commit outside", "no old revision"],
)
def test_an_order_or_a_replica_identity_that_makes_no_sense_is_refused(stream: list[bytes]) -> None:
    decoder, assembler = Decoder(), Assembler("e")
    *before, last = [decoded for decoded in map(decoder.decode, stream) if decoded is not None]
    for decoded in before:
        assembler.feed(decoded)
    with pytest.raises(DecodingError):
        assembler.feed(last)


@pytest.mark.parametrize(
    "row",
    [
        wire.delete(MESSAGES, (b"m", *[None] * 12)),
        wire.update(MESSAGES, (UNCHANGED, *message("m")[1:])),
        wire.update(MESSAGES, (b"m", b"s", UNCHANGED, *message("m")[3:])),
        wire.insert(MESSAGES, (b"m", b"s", b"t", None, None, *message("m")[5:])),
    ],
    ids=["no old session", "no id", "no task", "no author"],
)
def test_a_row_that_the_log_does_not_name_leaves_the_whole_transaction_incomplete(row: bytes) -> None:
    before, after = wire.insert(MESSAGES, message("b", "r")), wire.insert(MESSAGES, message("a", "q"))
    transaction = committed(before, bump("r", 1), row, bump("s", 1), after, bump("q", 1))
    assert [change(transaction, session_id).operations for session_id in "rsq"] == [None] * 3
    assert (transaction.doubtful, transaction.broken) == (True, None)
    assert committed(row).broken == HistoryBroken(rows=1)


def test_a_large_id_is_taken_from_the_old_row() -> None:
    transaction = committed(wire.update(MESSAGES, (UNCHANGED, *message("m")[1:]), message_key("m")), bump("s", 1))
    assert said(transaction) == {"m": True}
    assert not transaction.doubtful


UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SESSIONS = ("a", "b", "c")
STEPS = st.lists(st.tuples(st.sampled_from("wxyz"), st.sampled_from((*SESSIONS, None))), max_size=30)


@UNHURRIED
@given(before=st.dictionaries(st.sampled_from("wxyz"), st.sampled_from(SESSIONS)), steps=STEPS)
def test_any_walk_of_rows_is_named_exactly(before: dict[str, str], steps: list[tuple[str, str | None]]) -> None:
    """Rows inserted, updated, moved and deleted at random: applied to what was there, the operations give what is
    there.
    """
    rows, revisions, stream = dict(before), dict.fromkeys(SESSIONS, 1), list[bytes]()
    for row, to in steps:
        was = rows.get(row)
        if was is None and to is not None:
            stream.append(wire.insert(MESSAGES, message(row, to)))
        elif was is not None and to is None:
            stream.append(wire.delete(MESSAGES, message_key(row, was)))
        elif was is not None and to is not None:
            stream.append(wire.update(MESSAGES, message(row, to), message_key(row, was) if was != to else None))
        for session_id in {was, to} - {None}:
            assert session_id is not None
            stream.append(bump(session_id, revisions[session_id]))
            revisions[session_id] += 1
        rows = {**rows, row: to} if to is not None else {key: at for key, at in rows.items() if key != row}
    transaction = committed(*stream)
    assert transaction.broken is None
    for session_id in SESSIONS:
        held = {row for row, at in before.items() if at == session_id}
        if revisions[session_id] > 1:
            operations = said(transaction, session_id)
            held = (held | {row for row, kept in operations.items() if kept}) - {
                row for row, kept in operations.items() if not kept
            }
            assert (change(transaction, session_id).base, change(transaction, session_id).revision) == (
                1,
                revisions[session_id],
            )
        assert held == {row for row, at in rows.items() if at == session_id}

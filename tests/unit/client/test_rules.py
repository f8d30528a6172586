"""Each rule of a client, C1 to C7 and its part of G6, by a story that goes wrong without it."""

from collections.abc import Callable
from typing import Any

import pytest

from client.buffer import BUFFER_BYTES, BUFFER_OPERATIONS, BUFFER_SECONDS, Buffer
from client.events import (
    Close,
    CloseReason,
    FrameReceived,
    IdentityRefused,
    LoadEnded,
    LoadMore,
    MessagesRead,
    PageFailed,
    Position,
    ReadMessages,
    ReadTurns,
    Resubscribe,
    SessionRemoved,
    Subscribed,
    SubscribeRefused,
    TurnsRead,
)
from client.following import CHECK_GRACE
from client.range import Filter
from client.reading import BRIDGE_SECONDS, PAGES_PER_REPAIR, REREADS
from client.repair import EPOCH_SPREAD, RECONNECT_SPREAD, REPAIR_SPACING, RETRY_AFTER
from client.state import Reading, Waiting
from tests.unit.client.source_model import SESSION, World, message, turn

M1 = message("m1", 1)


def frame(base: str | int, revision: str | int, *operations: dict[str, Any], **fields: Any) -> FrameReceived:
    payload = {
        "protocol_version": 2,
        "scope_id": "scope",
        "session_id": SESSION,
        "epoch": "epoch-0",
        "base_revision": str(base),
        "revision": str(revision),
        "operations": list(operations),
        **fields,
    }
    return FrameReceived(payload, 200)


def upsert(row_id: str, second: int, content: str = "") -> dict[str, Any]:
    body = message(row_id, second, content).model_dump(exclude_none=True)
    return {"kind": "upsert", "entity": "message", "id": row_id, "message": body}


def remove(row_id: str) -> dict[str, Any]:
    return {"kind": "remove", "entity": "message", "id": row_id}


@pytest.fixture
def world() -> World:
    """A live scope at revision 5 that shows m1; its last repair is long ago."""
    world = World()
    world.source.mint("epoch-0", 5, {("message", "m1"): M1})
    world.go_live()
    world.now = 100.0
    world.effects.clear()
    assert (world.state.live, world.state.applied, ids(world)) == (True, 5, ["m1"])
    return world


def ids(world: World) -> list[str]:
    return [row.id for row in world.state.held.rows()] if world.state.held else []


def repairs(world: World) -> bool:
    return Resubscribe() in world.effects or isinstance(world.state.phase, Waiting)


class TestC1OrderOfRules:
    IGNORED = "ignored"
    CLOSED = "closed"
    REPAIRED = "repaired"
    APPLIED = "applied"

    @pytest.mark.parametrize(
        ("received", "outcome"),
        [
            # Other scope or session comes before everything else.
            (frame(5, 6, upsert("m2", 2), scope_id="another"), IGNORED),
            (frame(5, 6, upsert("m2", 2), session_id="another"), IGNORED),
            (frame("", "", scope_id="another", terminal=True), IGNORED),
            (frame("", "", session_id="another", reset=True), IGNORED),
            # Terminal comes before malformed, other epoch, reset and check.
            (frame("", "", terminal=True), CLOSED),
            (frame("", "", terminal=True, reset=True, epoch="another"), CLOSED),
            (FrameReceived({"scope_id": "scope", "session_id": SESSION, "terminal": True}, 1), CLOSED),
            # Malformed, other epoch and reset come before check, duplicate and gap.
            (FrameReceived({"scope_id": "scope", "session_id": SESSION}, 1), REPAIRED),
            (frame(5, 6, upsert("m2", 2), protocol_version=3), REPAIRED),
            (frame("05", "6"), REPAIRED),
            (frame("5", "six"), REPAIRED),
            (frame("", ""), REPAIRED),
            (frame(6, 6), REPAIRED),
            (frame(7, 6), REPAIRED),
            (frame(5, 5), REPAIRED),
            (frame(5, 4), REPAIRED),
            (frame(5, 6, {"kind": "replace", "entity": "message", "id": "m2"}), REPAIRED),
            (frame(5, 6, {"kind": "upsert", "entity": "message", "id": "m2"}), REPAIRED),
            (frame(5, 6, {**upsert("m2", 2), "entity": "turn"}), REPAIRED),
            (frame(5, 6, {**upsert("m2", 2), "id": "m3"}), REPAIRED),
            (frame(5, 6, {**remove("m1"), "message": upsert("m1", 1)["message"]}), REPAIRED),
            (frame(5, 6, {**remove(""), "id": ""}), REPAIRED),
            (frame(5, 6, *(upsert(f"m{number}", 2) for number in range(257))), REPAIRED),
            (frame(5, 6, operations=None), REPAIRED),
            (frame(5, 6, epoch="another"), REPAIRED),
            (frame(5, 5, check=True, epoch="another"), REPAIRED),
            (frame(3, 4, epoch="another"), REPAIRED),
            (frame("", "", reset=True), REPAIRED),
            (frame(5, 6, upsert("m2", 2), reset=True), REPAIRED),
            # A check compares and never advances; it comes before duplicate and gap.
            (frame(5, 5, check=True), IGNORED),
            (frame(4, 4, check=True), REPAIRED),
            (frame(5, 6, check=True), REPAIRED),
            (frame(6, 6, upsert("m2", 2), check=True), REPAIRED),
            # A duplicate is ignored, whatever its base.
            (frame(4, 5, upsert("m2", 2)), IGNORED),
            (frame(1, 3, upsert("m2", 2)), IGNORED),
            # A gap, or a stale base, is repaired.
            (frame(6, 7, upsert("m2", 2)), REPAIRED),
            (frame(4, 6, upsert("m2", 2)), REPAIRED),
            # Otherwise all operations are applied.
            (frame(5, 6, upsert("m2", 2)), APPLIED),
            (frame(5, 9, upsert("m2", 2)), APPLIED),
        ],
    )
    def test_of_a_frame(self, world: World, received: FrameReceived, outcome: str) -> None:
        world.feed(received)
        closed = world.state.closed is not None
        assert (closed, repairs(world)) == (outcome == self.CLOSED, outcome == self.REPAIRED)
        assert ids(world) == (["m1", "m2"] if outcome == self.APPLIED else ["m1"])
        if outcome == self.APPLIED:
            assert world.state.applied == int(received.payload["revision"])
        else:
            assert world.state.applied == 5

    def test_coverage_advances_without_a_read(self, world: World) -> None:
        for base in range(5, 105):
            world.feed(frame(base, base + 1))
        assert world.state.applied == 105
        assert world.effects == []
        assert world.state.counters.coverage == 100

    def test_all_operations_of_a_frame_are_applied(self, world: World) -> None:
        world.feed(frame(5, 6, upsert("m3", 3), remove("m1"), upsert("m2", 2)))
        assert ids(world) == ["m2", "m3"]

    def test_a_removed_row_may_come_back(self, world: World) -> None:
        world.feed(frame(5, 6, remove("m1")))
        world.feed(frame(6, 7, upsert("m1", 1)))
        assert ids(world) == ["m1"]

    def test_a_newer_check_has_a_second(self, world: World) -> None:
        world.feed(frame(7, 7, check=True))
        assert not repairs(world)
        world.now += CHECK_GRACE - 0.001
        world.feed_tick()
        assert not repairs(world)
        world.now += 0.002
        world.feed_tick()
        assert repairs(world)
        assert world.state.counters.gaps == 1

    def test_a_newer_check_is_settled_by_the_change_it_told_of(self, world: World) -> None:
        world.feed(frame(7, 7, check=True))
        world.feed(frame(5, 7, upsert("m2", 2)))
        world.now += 10
        world.feed_tick()
        assert world.state.live
        assert world.effects[-1:] != [Resubscribe()]

    def test_a_second_check_does_not_begin_the_second_anew(self, world: World) -> None:
        world.feed(frame(7, 7, check=True))
        world.now += CHECK_GRACE / 2
        world.feed(frame(9, 9, check=True))
        world.feed(frame(5, 7))
        world.now += CHECK_GRACE / 2
        world.feed_tick()
        assert repairs(world)

    @pytest.mark.parametrize("received", [frame("", "", reset=True), frame(5, 6, operations=None)])
    def test_a_reset_during_a_repair_makes_it_run_again(self, world: World, received: FrameReceived) -> None:
        world.feed(frame(6, 7))
        world.open_scope()
        world.deliver()
        world.feed(received)
        world.source.mint("epoch-0", 8, {("message", "m2"): message("m2", 2)})
        world.answer_all()
        assert ids(world) == ["m2"], "what the pages prove is shown"
        assert not world.state.live, "but frames were lost"
        world.now += REPAIR_SPACING
        world.feed_tick()
        assert world.effects.count(Resubscribe()) == 2

    def test_a_check_during_a_repair_that_tells_of_an_older_source_makes_it_run_again(self, world: World) -> None:
        world.feed(frame(6, 7))
        world.feed(Subscribed("epoch-0", 7))
        world.feed(frame(6, 6, check=True))
        world.source.mint("epoch-0", 7, {})
        world.answer_all()
        assert repairs(world)
        assert world.state.status == "repairing"

    def test_a_check_during_a_repair_is_compared_with_what_comes_of_it(self, world: World) -> None:
        world.feed(frame(6, 7))
        world.open_scope()
        world.deliver()
        world.feed(frame(8, 8, check=True))
        world.answer_all()
        assert world.state.live
        world.now += CHECK_GRACE
        world.feed_tick()
        assert world.state.status == "repairing"

    @pytest.mark.parametrize("epoch", ["epoch-0", "another"])
    @pytest.mark.parametrize("phase", ["live", "reading", "waiting"])
    def test_a_reset_is_counted_in_every_phase_whatever_epoch_it_carries(
        self, world: World, phase: str, epoch: str
    ) -> None:
        if phase != "live":
            world.feed(frame(6, 7))
        if phase == "reading":
            world.feed(Subscribed("epoch-0", 7))
        world.feed(frame("", "", reset=True, epoch=epoch))
        world.feed(frame(5, 6, epoch=epoch))
        assert world.state.counters.resets == 1

    def test_frames_after_a_reset_during_a_repair_are_not_joined_to_older_pages(self, world: World) -> None:
        world.feed(frame("", "", reset=True))
        world.open_scope()
        world.deliver()
        world.feed(frame("", "", reset=True))
        world.feed(frame(5, 6, upsert("m9", 9)))
        world.answer_all()
        assert ids(world) == ["m1"]
        assert world.state.applied == 5

    def test_repairs_begin_a_second_apart(self, world: World) -> None:
        for _ in range(20):
            world.feed(frame("", "", reset=True))
            world.open_scope()
            world.deliver()
            world.answer_all()
            world.now += REPAIR_SPACING / 10
            world.feed_tick()
        assert world.effects.count(Resubscribe()) == 2

    @pytest.mark.parametrize(
        ("event", "reason"),
        [(frame("", "", terminal=True), CloseReason.ENDED), (SessionRemoved(), CloseReason.REMOVED)],
    )
    @pytest.mark.parametrize("phase", ["live", "reading", "subscribing", "waiting", "offline"])
    def test_the_end_comes_in_every_phase_and_keeps_the_rows(
        self, world: World, event: FrameReceived | SessionRemoved, reason: CloseReason, phase: str
    ) -> None:
        if phase in {"reading", "subscribing"}:
            world.feed(frame(6, 7))
        if phase == "reading":
            world.open_scope()
            world.deliver()
        if phase == "waiting":
            world.feed(frame(5, 6, epoch="another"))
        if phase == "offline":
            world.disconnect()
        world.feed(event)
        assert world.state.closed is reason
        assert world.effects[-1] == Close(reason)
        before = world.state
        world.answer_all()
        world.feed(frame(5, 6, upsert("m2", 2)))
        world.now += 100
        world.feed_tick()
        assert world.state is before
        assert ids(world) == ["m1"]

    @pytest.mark.parametrize(
        ("event", "reason"),
        [(SessionRemoved(), CloseReason.REMOVED), (IdentityRefused(), CloseReason.UNAUTHENTICATED)],
    )
    def test_what_follows_an_end_tells_why(
        self, world: World, event: SessionRemoved | IdentityRefused, reason: CloseReason
    ) -> None:
        """Once: what comes after that is about another subscription."""
        world.feed(frame("", "", terminal=True))
        world.feed(event)
        assert world.state.closed is reason
        assert world.effects[-1] == Close(reason)
        told = world.state
        world.feed(SessionRemoved())
        world.feed(IdentityRefused())
        assert world.state is told
        assert ids(world) == ["m1"]


class TestC2AppliedIsSetByAPage:
    def test_not_by_the_subscribe_reply(self) -> None:
        world = World()
        world.put(M1)
        world.connect()
        world.feed(Subscribed("epoch-0", 1))
        world.feed(frame(1, 2, upsert("m2", 2)))
        assert (world.state.applied, ids(world)) == (None, [])

    def test_a_page_below_the_reply_is_not_used(self) -> None:
        world = World()
        world.put(M1)
        world.put(message("m2", 2))
        world.connect()
        world.open_scope()
        world.deliver()
        world.answer(revision=1)
        assert world.state.applied is None
        world.now += RETRY_AFTER * (1 + world.chance)
        world.feed_tick()
        assert world.effects[-1] == Resubscribe()

    def test_a_page_above_the_reply_sets_its_own_revision(self) -> None:
        world = World()
        world.connect()
        world.open_scope()
        world.deliver()
        world.put(M1, statements=3)
        world.answer_all()
        assert world.state.applied == 3

    def test_a_repair_keeps_applied_until_its_pages_are_there(self, world: World) -> None:
        world.feed(frame(7, 8))
        world.feed(Subscribed("epoch-0", 8))
        assert world.state.applied == 5
        assert ids(world) == ["m1"]

    def test_a_repair_does_not_go_back(self, world: World) -> None:
        world.feed(frame(7, 8))
        world.feed(Subscribed("epoch-0", 3))
        messages, turns = (asked.effect.read for asked in world.reads)
        world.feed(MessagesRead(messages, "epoch-0", 4, (), has_more=False))
        world.feed(TurnsRead(turns, "epoch-0", 4, (), has_more=False))
        assert (world.state.applied, ids(world)) == (5, ["m1"])
        assert not world.state.live


class TestC3EachPartKeepsItsRevision:
    @staticmethod
    def reading() -> World:
        """Pages are asked for at revision 1; m1 and t1 are there."""
        world = World()
        world.put(M1, turn("t1", 1))
        world.publish()
        world.connect()
        world.open_scope()
        world.deliver()
        return world

    def test_a_buffered_operation_is_skipped_for_parts_at_or_past_it_only(self) -> None:
        world = self.reading()
        world.answer()
        world.put(message("m1", 1, "second"), turn("t1", 1, completed=True))
        world.publish()
        world.commit((("message", "m1"), None))
        world.deliver()
        world.answer()
        assert world.state.status == "loading", "messages are at 1, turns at 3, and one frame has not come"
        world.publish()
        world.deliver()
        assert world.state.live
        assert world.shown() == world.expected("epoch-0", 3, None)
        assert world.state.counters.reads == 2

    def test_frames_above_the_highest_part_follow_at_once(self) -> None:
        world = self.reading()
        for content in "abcd":
            world.put(message("m1", 1, content))
        world.publish()
        world.deliver()
        world.answer(0, revision=2)
        world.answer(0, revision=4)
        assert world.state.applied == 5
        assert world.shown() == world.expected("epoch-0", 5, None)

    def test_without_a_bridge_only_the_lower_part_is_read_again(self) -> None:
        world = self.reading()
        world.answer()
        world.put(message("m2", 2))
        world.unpublished.clear()
        world.answer()
        assert world.reads == []
        world.now += BRIDGE_SECONDS
        world.feed_tick()
        assert [type(asked.effect) for asked in world.reads] == [ReadMessages]
        world.answer()
        assert world.state.live
        assert ids(world) == ["m1", "m2", "t1"]

    def test_a_gap_between_the_parts_is_read_again_at_once(self) -> None:
        world = self.reading()
        world.answer(1)
        world.put(message("m2", 2))
        world.unpublished.clear()
        world.put(message("m3", 3))
        world.answer()
        world.publish()
        world.deliver()
        assert [type(asked.effect) for asked in world.reads] == [ReadTurns]
        world.answer()
        assert world.state.live
        counters = world.state.counters
        assert (counters.gaps, counters.repairs, counters.reads) == (0, 0, 3), "a gap is what a repair follows"

    def test_reading_again_has_an_end(self) -> None:
        world = self.reading()
        world.answer()
        for _ in range(REREADS + 1):
            world.put(message("m2", 2))
            world.unpublished.clear()
            world.answer()
            world.now += BRIDGE_SECONDS
            world.feed_tick()
        assert world.subscribing

    def test_the_pages_of_a_range_may_differ_too(self) -> None:
        world = World(page_rows=2)
        world.put(*(message(f"m{number}", number) for number in range(5)))
        world.go_live()
        world.feed(LoadMore())
        world.answer_all()
        world.now = 50
        world.reset()
        world.deliver()
        world.open_scope()
        world.deliver()
        world.answer()
        world.put(message("m4", 4, "changed after the first page"), message("m2", 2, "and before the second"))
        world.publish()
        world.deliver()
        world.answer_all()
        assert world.state.live
        assert world.shown() == world.expected("epoch-0", 2, world.low())


class TestC4BufferedFramesStayInOrder:
    def test_every_frame_behind_a_buffered_one_waits(self) -> None:
        world = World()
        world.connect()
        world.open_scope()
        world.deliver()
        world.put(message("m1", 1, "first"))
        world.commit()
        world.put(message("m1", 1, "last"))
        world.publish()
        world.deliver()
        assert ids(world) == []
        world.answer(0, revision=0)
        world.answer(0, revision=0)
        assert world.state.applied == 3
        assert world.shown() == world.expected("epoch-0", 3, None)
        assert world.state.counters.gaps == 0

    @staticmethod
    def overflow_by_operations(world: World) -> None:
        for number in range(BUFFER_OPERATIONS + 1):
            world.feed(frame(number, number + 1, upsert("m1", 1)))

    @staticmethod
    def overflow_by_bytes(world: World) -> None:
        payload = frame(0, 1, upsert("m1", 1)).payload
        world.feed(FrameReceived(payload, BUFFER_BYTES + 1))

    @staticmethod
    def overflow_by_time(world: World) -> None:
        world.feed(frame(0, 1, upsert("m1", 1)))
        world.now += BUFFER_SECONDS
        world.feed_tick()

    @pytest.mark.parametrize("overflow", [overflow_by_operations, overflow_by_bytes, overflow_by_time])
    def test_beyond_its_limits_the_buffer_is_given_up(self, overflow: Callable[[World], None]) -> None:
        world = World()
        world.connect()
        world.open_scope()
        world.deliver()
        overflow(world)
        world.feed(frame(300, 301, upsert("m9", 9)))
        assert isinstance(world.state.phase, Reading)
        assert world.state.phase.buffer == Buffer(), "nothing is kept for a cycle that has lost frames"
        world.answer_all()
        assert (world.state.applied, ids(world)) == (0, [])
        assert repairs(world)

    def test_within_its_limits_it_is_not(self) -> None:
        world = World()
        world.connect()
        world.open_scope()
        world.deliver()
        for number in range(BUFFER_OPERATIONS):
            world.feed(frame(number, number + 1, upsert(f"m{number}", 1)))
        world.now += BUFFER_SECONDS - 0.001
        world.feed_tick()
        world.answer_all()
        assert world.state.applied == BUFFER_OPERATIONS
        assert len(ids(world)) == BUFFER_OPERATIONS


class TestC5RepairReplacesWhatItProves:
    @staticmethod
    def loaded(rows: int, pages: int) -> World:
        world = World(page_rows=2)
        world.put(*(message(f"m{number:02d}", number) for number in range(rows)))
        world.go_live()
        for _ in range(pages - 1):
            world.feed(LoadMore())
            world.answer_all()
        world.now = 50
        world.effects.clear()
        return world

    @staticmethod
    def repaired(world: World) -> list[ReadMessages]:
        world.reset()
        world.deliver()
        world.open_scope()
        world.deliver()
        world.answer_all()
        assert world.state.live
        return [effect for effect in world.effects if isinstance(effect, ReadMessages)]

    def test_the_range_that_was_loaded_is_read_again(self) -> None:
        world = self.loaded(rows=9, pages=2)
        assert len(self.repaired(world)) == 2
        assert ids(world) == ["m05", "m06", "m07", "m08"]

    def test_up_to_three_pages_and_the_rest_is_dropped(self) -> None:
        world = self.loaded(rows=9, pages=5)
        assert (len(ids(world)), world.has_more()) == (9, False)
        assert len(self.repaired(world)) == PAGES_PER_REPAIR
        assert (len(ids(world)), world.has_more()) == (6, True)
        world.feed(LoadMore())
        world.answer_all()
        assert len(ids(world)) == 8

    def test_a_cursor_row_that_moves_between_two_pages_makes_it_run_again(self) -> None:
        world = self.loaded(rows=6, pages=2)
        world.reset()
        world.deliver()
        world.open_scope()
        world.deliver()
        world.answer()
        world.put(message("m04", 1))
        world.publish()
        world.deliver()
        world.answer_all()
        world.settle()
        assert world.shown() == world.expected("epoch-0", 2, world.low())

    def test_a_later_page_that_is_not_found_is_no_proof_that_the_session_is_gone(self) -> None:
        world = self.loaded(rows=6, pages=2)
        world.reset()
        world.deliver()
        world.open_scope()
        world.deliver()
        world.answer()
        world.fail(404, index=1)
        assert world.state.closed is None
        world.settle()
        assert ids(world) == ["m02", "m03", "m04", "m05"]

    def test_rows_that_are_gone_disappear(self) -> None:
        world = self.loaded(rows=3, pages=2)
        world.commit((("message", "m00"), None), (("message", "m02"), None))
        world.unpublished.clear()
        self.repaired(world)
        assert ids(world) == ["m01"]

    def test_a_row_beyond_the_boundary_is_not_shown_until_it_is_loaded(self) -> None:
        world = self.loaded(rows=6, pages=1)
        world.put(message("m00", 0, "changed"))
        world.publish()
        world.deliver()
        assert ids(world) == ["m04", "m05"]
        for _ in range(2):
            world.feed(LoadMore())
            world.answer_all()
        assert world.shown() == world.expected("epoch-0", 2, None)

    def test_a_repair_does_not_extend_the_range_below_its_boundary(self) -> None:
        world = self.loaded(rows=6, pages=1)
        low = world.low()
        for number in range(6, 10):
            world.put(message(f"m{number:02d}", number))
            world.publish()
            world.deliver()
            world.now += 50
            world.reset()
            world.settle()
            assert world.low() == low
            assert world.has_more()
            assert world.shown() == world.expected("epoch-0", world.source.revision, low)
        while world.has_more():
            world.feed(LoadMore())
            world.answer_all()
        assert world.shown() == world.expected("epoch-0", world.source.revision, None)

    def test_a_repair_whose_range_is_empty_loads_a_page_all_the_same(self) -> None:
        world = self.loaded(rows=6, pages=1)
        world.commit((("message", "m04"), None), (("message", "m05"), None))
        world.now += 50
        world.reset()
        world.settle()
        assert ids(world) == ["m02", "m03"]

    def test_a_repair_of_a_whole_session_has_no_boundary(self) -> None:
        world = self.loaded(rows=2, pages=1)
        world.put(message("l9", 0))
        world.now += 50
        world.reset()
        world.settle()
        assert (ids(world), world.has_more()) == (["l9", "m00", "m01"], False)

    def test_a_row_that_moves_beyond_the_boundary_is_no_longer_shown(self) -> None:
        world = self.loaded(rows=6, pages=1)
        world.put(message("m05", 1))
        world.publish()
        world.deliver()
        assert ids(world) == ["m04"]

    def test_without_more_to_load_every_row_is_shown(self) -> None:
        world = self.loaded(rows=2, pages=1)
        world.put(message("l9", 0))
        world.publish()
        world.deliver()
        assert ids(world) == ["l9", "m00", "m01"]


class TestC6LoadMore:
    @staticmethod
    def loading() -> World:
        world = World(page_rows=2)
        world.put(*(message(f"m{number}", number) for number in range(6)))
        world.publish()
        world.go_live()
        world.now = 50
        world.feed(LoadMore())
        return world

    def test_frames_apply_as_usual_and_their_copies_to_the_page(self) -> None:
        world = self.loading()
        world.put(message("m2", 2, "changed after the page was read"), message("m5", 5, "shown at once"))
        world.commit((("message", "m3"), None))
        world.publish()
        world.deliver()
        assert world.state.applied == 3
        world.answer(revision=1)
        assert world.shown() == world.expected("epoch-0", 3, world.low())
        assert ids(world) == ["m2", "m4", "m5"]
        assert world.loads == [1]

    def test_a_page_from_the_future_waits_for_its_frames(self) -> None:
        world = self.loading()
        world.commit((("message", "m5"), None))
        world.put(message("m3", 3, "new"))
        world.answer()
        assert ids(world) == ["m4", "m5"]
        assert world.loads == []
        world.publish(1)
        world.deliver()
        assert ids(world) == ["m4"]
        world.publish()
        world.deliver()
        assert world.shown() == world.expected("epoch-0", 3, world.low())
        assert world.loads == [2]

    def test_it_sends_no_guard_and_goes_on_under_steady_writes(self) -> None:
        world = self.loading()
        for content in "abcdefgh":
            world.put(message("m5", 5, content))
            world.publish()
            world.deliver()
        world.answer(revision=4)
        assert world.loads == [2]
        assert world.state.counters.repairs == 0

    def test_only_one_page_is_on_its_way(self) -> None:
        world = self.loading()
        world.feed(LoadMore())
        assert len(world.reads) == 1

    def test_a_page_older_than_the_rows_is_given_up(self) -> None:
        world = World(page_rows=2)
        world.put(*(message(f"m{number}", number) for number in range(6)))
        world.put(message("m0", 0))
        world.go_live()
        world.feed(LoadMore())
        world.answer(revision=1)
        assert world.loads == [None]
        assert world.state.live

    def test_one_that_could_not_be_served_is_asked_for_when_the_gateway_said_and_not_together(self) -> None:
        for told, chance, again_after in ((3.0, 0.0, 3.0), (3.0, 0.5, 4.5), (0.0, 0.0, 1.0), (0.0, 0.5, 1.5)):
            world = self.loading()
            world.chance = chance
            asked = world.reads[-1].effect.read
            assert world.feed(PageFailed(asked, 503, told)) == (LoadEnded(None, again_after),)
            assert world.state.live

    def test_a_repair_gives_it_up(self) -> None:
        world = self.loading()
        world.reset()
        world.deliver()
        assert world.loads == [None]
        world.answer()
        world.settle()
        assert ids(world) == ["m4", "m5"]

    def test_too_many_copies_give_it_up(self) -> None:
        world = self.loading()
        for number in range(BUFFER_OPERATIONS + 1):
            world.feed(frame(number + 1, number + 2, upsert("m5", 5)))
        assert world.loads == [None]
        assert (world.state.live, world.state.counters.repairs) == (True, 0)

    @pytest.mark.parametrize("status", [0, 500, 503])
    def test_a_page_that_fails_leaves_the_rows(self, status: int) -> None:
        world = self.loading()
        world.fail(status)
        assert world.loads == [None]
        assert (world.state.live, ids(world)) == (True, ["m4", "m5"])

    @pytest.mark.parametrize("status", [400, 404, 409])
    def test_a_cursor_that_is_gone_is_no_proof_that_the_session_is(self, status: int) -> None:
        world = self.loading()
        world.fail(status)
        assert world.state.closed is None
        assert repairs(world)

    def test_a_cursor_row_that_moved_gives_it_up(self) -> None:
        world = self.loading()
        world.put(message("m4", 1))
        world.publish()
        world.deliver()
        world.answer()
        assert world.loads == [None]
        assert world.shown() == world.expected("epoch-0", 2, world.low())

    def test_a_page_of_another_epoch_repairs(self) -> None:
        world = self.loading()
        read = world.reads.pop().effect.read
        world.feed(MessagesRead(read, "epoch-1", 9, (), has_more=False))
        assert world.loads == [None]
        assert world.state.phase == Waiting(world.now + world.chance * EPOCH_SPREAD)

    def test_a_page_of_an_earlier_load_is_not_used(self) -> None:
        world = self.loading()
        late = world.reads.pop().effect.read
        world.feed(PageFailed(late, 503))
        world.feed(LoadMore())
        before = world.state
        world.feed(MessagesRead(late, "epoch-0", 1, (), has_more=False))
        world.feed(PageFailed(late, 404))
        assert world.state == before

    def test_an_emptied_range_is_read_anew(self) -> None:
        world = World(page_rows=2)
        world.put(*(message(f"m{number}", number) for number in range(6)))
        world.publish()
        world.go_live()
        world.commit((("message", "m4"), None), (("message", "m5"), None))
        world.publish()
        world.deliver()
        assert ids(world) == []
        world.feed(LoadMore())
        assert world.loads == [None]
        world.settle()
        assert ids(world) == ["m2", "m3"]


class TestC7SubscriptionsAndSpread:
    def test_a_failed_resubscribe_has_replaced_the_old_subscription(self, world: World) -> None:
        world.feed(frame(6, 7))
        world.feed(SubscribeRefused("upstream_failure", retryable=True))
        world.feed(frame(5, 6, upsert("m2", 2)))
        assert (world.state.live, world.state.applied) == (False, 5)
        world.now += RETRY_AFTER * (1 + world.chance)
        world.feed_tick()
        assert world.effects.count(Resubscribe()) == 2

    def test_frames_before_the_reply_belong_to_the_old_subscription(self, world: World) -> None:
        world.feed(frame(6, 7))
        world.feed(frame(5, 6, upsert("m2", 2)))
        world.feed(Subscribed("epoch-0", 5))
        world.answer_all()
        assert ids(world) == ["m1"]

    @pytest.mark.parametrize(
        ("code", "retryable", "reason"),
        [("not_found", False, CloseReason.ENDED), ("limit_exceeded", False, CloseReason.REFUSED)],
    )
    def test_a_final_refusal_closes(self, world: World, code: Any, retryable: bool, reason: CloseReason) -> None:
        world.feed(frame(6, 7))
        world.feed(SubscribeRefused(code, retryable))
        assert world.state.closed is reason
        assert ids(world) == ["m1"]

    @pytest.mark.parametrize("chance", [0.0, 0.25, 0.999])
    @pytest.mark.parametrize("discovery", ["frame", "subscribe", "frame while reading", "page"])
    def test_another_epoch_spreads_the_repair_once(self, world: World, discovery: str, chance: float) -> None:
        world.chance = chance
        if discovery == "frame":
            world.feed(frame("", "", reset=True, epoch="epoch-1"))
        else:
            world.feed(frame(6, 7))
            world.now += REPAIR_SPACING
        if discovery == "subscribe":
            world.feed(Subscribed("epoch-1", 1))
        if discovery == "frame while reading":
            world.feed(Subscribed("epoch-0", 7))
            world.feed(frame("", "", reset=True, epoch="epoch-1"))
        if discovery == "page":
            world.feed(Subscribed("epoch-0", 7))
            read = world.reads[0].effect.read
            world.feed(MessagesRead(read, "epoch-1", 1, (), has_more=False))
        begun = world.effects.count(Resubscribe())
        if chance:
            assert world.state.phase == Waiting(world.now + chance * EPOCH_SPREAD)
            world.feed(frame("", "", reset=True, epoch="epoch-1"))
            world.now += chance * EPOCH_SPREAD
            world.feed_tick()
            assert world.effects.count(Resubscribe()) == begun + 1
        world.feed(Subscribed("epoch-1", 1))
        assert not isinstance(world.state.phase, Waiting), "spread once, not once more for the reply"

    @pytest.mark.parametrize("chance", [0.25, 0.999])
    def test_a_reconnect_is_spread_and_a_first_connection_is_not(self, world: World, chance: float) -> None:
        world.chance = chance
        world.feed(frame("", "", reset=True))
        world.now += 10
        world.disconnect()
        assert ids(world) == ["m1"]
        world.connect()
        assert world.state.phase == Waiting(world.now + chance * RECONNECT_SPREAD)
        fresh = World(chance=chance)
        fresh.connect()
        assert fresh.subscribing

    def test_a_later_epoch_is_spread_again(self, world: World) -> None:
        for number in (1, 2):
            world.mint(f"epoch-{number}", 1, {})
            world.deliver()
            assert world.state.phase == Waiting(world.now + world.chance * EPOCH_SPREAD)
            world.settle()
            assert world.state.status == "live"
            world.now += 10


HELD = Position("epoch-0", 5)
"""What `world` shows."""


class TestG6Resuming:
    def test_asks_at_once_to_go_on_from_what_is_shown_and_reads_nothing(self, world: World) -> None:
        before = world.state.counters
        world.disconnect()
        world.put(message("m2", 2))
        world.put(message("m3", 3))
        world.publish()
        world.connect()
        assert world.effects[-1] == Resubscribe(HELD)
        world.open_scope()
        world.deliver(1)
        assert (world.state.status, world.state.applied, ids(world)) == ("live", 5, ["m1"])
        world.deliver()
        assert (world.state.status, world.state.applied, ids(world)) == ("live", 7, ["m1", "m2", "m3"])
        assert world.reads == []
        after = world.state.counters
        assert (after.resumes, after.reads, after.repairs) == (before.resumes + 1, before.reads, before.repairs)

    def test_nothing_missed(self, world: World) -> None:
        world.disconnect()
        world.connect()
        world.open_scope()
        world.deliver()
        assert (world.state.status, world.state.applied) == ("live", 5)
        world.put(message("m2", 2))
        world.publish()
        world.deliver()
        assert ids(world) == ["m1", "m2"]

    @pytest.mark.parametrize(
        "reply",
        [
            Subscribed("epoch-0", 5),
            Subscribed("epoch-0", 6, resumed=True),
            Subscribed("epoch-1", 5, resumed=True),
            Subscribed("epoch-0", 9, resumed=False),
        ],
        ids=["an older gateway", "another revision", "another epoch", "refused"],
    )
    def test_a_gateway_that_does_not_go_on_from_there_is_read(self, world: World, reply: Subscribed) -> None:
        world.now += 10
        world.disconnect()
        world.connect()
        world.feed(reply)
        assert world.state.phase == Waiting(world.now + world.chance * RECONNECT_SPREAD)
        world.now += RECONNECT_SPREAD
        world.feed_tick()
        assert world.effects[-1] == Resubscribe()
        world.feed(Subscribed(reply.epoch, reply.revision))
        assert len(world.reads) == 2
        assert world.state.counters.resumes == 0

    def test_frames_before_the_reply_are_of_no_use(self, world: World) -> None:
        world.disconnect()
        world.connect()
        world.feed(frame(5, 6, upsert("m2", 2)))
        assert (world.state.applied, ids(world)) == (5, ["m1"])

    def test_what_was_not_asked_for_is_not_believed(self, world: World) -> None:
        """C2: only pages make rows that can be gone on from."""
        world.feed(frame(6, 7))
        world.feed(Subscribed("epoch-0", 5, resumed=True))
        assert isinstance(world.state.phase, Reading)
        fresh = World()
        fresh.connect()
        fresh.feed(Subscribed("epoch-0", 0, resumed=True))
        assert isinstance(fresh.state.phase, Reading)

    def test_a_connection_that_is_lost_again_changes_nothing(self, world: World) -> None:
        for _ in range(3):
            world.disconnect()
            world.connect()
            assert world.effects[-1] == Resubscribe(HELD)

    def test_a_refusal_is_followed_by_a_read(self, world: World) -> None:
        world.disconnect()
        world.connect()
        world.feed(SubscribeRefused("upstream_failure", retryable=True))
        world.now += 10
        world.feed_tick()
        assert world.effects[-1] == Resubscribe()

    @pytest.mark.parametrize("phase", ["waiting", "subscribing", "reading"])
    def test_rows_that_were_being_read_again_are_not_gone_on_from(self, world: World, phase: str) -> None:
        """Why they were may be that they are wrong: a source below them, a frame that cannot be understood."""
        world.feed(frame(3, 3, check=True, epoch="another" if phase == "waiting" else "epoch-0"))
        if phase == "reading":
            world.open_scope()
            world.deliver()
        assert type(world.state.phase).__name__.lower() == phase
        world.disconnect()
        world.now += 10
        world.chance = 0.0
        world.connect()
        assert world.effects[-1] == Resubscribe()

    def test_nothing_shown_is_nothing_to_go_on_from(self) -> None:
        fresh = World()
        for _ in range(2):
            fresh.connect()
            fresh.feed_tick()
            fresh.now += 10
            fresh.feed_tick()
            assert fresh.effects[-1] == Resubscribe()
            fresh.disconnect()


class TestPagesThatDoNotCome:
    def test_a_connection_that_wants_an_identity_ends_the_scope(self, world: World) -> None:
        world.disconnect()
        world.feed(IdentityRefused())
        assert world.state.closed is CloseReason.UNAUTHENTICATED
        assert ids(world) == ["m1"]

    @pytest.mark.parametrize(("status", "reason"), [(401, "unauthenticated"), (403, "unauthenticated")])
    def test_no_identity(self, world: World, status: int, reason: str) -> None:
        world.feed(frame(6, 7))
        world.open_scope()
        world.deliver()
        world.fail(status)
        assert world.state.closed is CloseReason(reason)

    def test_not_found_at_first_and_later(self, world: World) -> None:
        fresh = World()
        fresh.connect()
        fresh.open_scope()
        fresh.deliver()
        fresh.fail(404)
        assert fresh.state.closed is CloseReason.NOT_FOUND
        world.feed(frame(6, 7))
        world.open_scope()
        world.deliver()
        world.fail(404)
        assert world.state.closed is CloseReason.ENDED

    @pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
    @pytest.mark.parametrize(
        ("status", "told", "least"), [(0, 0, 1), (500, 0, 1), (502, 1, 1), (503, 0.5, 1), (503, 7, 7)]
    )
    def test_a_failure_is_tried_again_when_it_is_worth_while_and_at_random(
        self, world: World, status: int, told: float, least: float, chance: float
    ) -> None:
        world.feed(frame(6, 7))
        world.open_scope()
        world.deliver()
        world.chance = chance
        world.fail(status, retry_after=told)
        assert least >= RETRY_AFTER
        assert world.state.phase == Waiting(world.now + least * (1 + chance))

    def test_an_answer_to_an_earlier_cycle_is_not_used_in_the_next_one(self, world: World) -> None:
        world.feed(frame(6, 7))
        world.open_scope()
        world.deliver()
        late = world.reads.pop(0).effect.read
        world.disconnect()
        world.now += 10
        world.chance = 0.0
        world.connect()
        world.open_scope()
        world.deliver()
        before = world.state
        world.feed(MessagesRead(late, "epoch-0", 9, (), has_more=False))
        world.feed(PageFailed(late, 404))
        world.feed(PageFailed(late, 401))
        assert world.state == before

    def test_an_answer_to_an_earlier_cycle_is_not_used(self, world: World) -> None:
        world.feed(frame(6, 7))
        world.open_scope()
        world.deliver()
        late = world.reads.pop(0).effect.read
        world.disconnect()
        before = world.state
        world.feed(MessagesRead(late, "epoch-0", 9, (), has_more=False))
        world.feed(PageFailed(late, 404))
        world.feed(PageFailed(late, 401))
        assert world.state == before


class TestFilter:
    @pytest.mark.parametrize(
        ("scope_filter", "shown"),
        [
            (Filter(), ["m1", "m2", "m3"]),
            (Filter(authors=("user",)), ["m1", "m3"]),
            (Filter(authors=("user", "agent")), ["m1", "m2", "m3"]),
            (Filter(task_id="task"), ["m1", "m2"]),
            (Filter("other", ("agent",)), []),
        ],
    )
    def test_what_the_gateway_should_not_have_sent_is_not_shown(self, scope_filter: Filter, shown: list[str]) -> None:
        world = World(scope_filter)
        world.go_live()
        bodies = message("m1", 1), message("m2", 2, author="agent"), message("m3", 3, task="other")
        operations = [
            {"kind": "upsert", "entity": "message", "id": body.id, "message": body.model_dump(exclude_none=True)}
            for body in bodies
        ]
        world.feed(frame(0, 1, *operations))
        assert ids(world) == shown


class TestOrder:
    def test_by_microseconds_then_id(self) -> None:
        world = World()
        world.go_live()
        times = {"b": "00.5Z", "a": "00.500000Z", "Z": "00.5Z", "c": "00.499999Z", "d": "01Z"}
        operations = []
        for row_id, time in times.items():
            body = {**message(row_id, 0).model_dump(exclude_none=True), "created_at": f"2026-01-01T00:00:{time}"}
            operations.append({"kind": "upsert", "entity": "message", "id": row_id, "message": body})
        world.feed(frame(0, 1, *operations))
        assert ids(world) == ["c", "Z", "a", "b", "d"]


def test_a_load_that_ends_says_so_exactly_once(world: World) -> None:
    wide = World(page_rows=1)
    wide.put(message("m1", 1), message("m2", 2))
    wide.go_live()
    wide.feed(LoadMore())
    wide.answer()
    assert [effect for effect in wide.effects if isinstance(effect, LoadEnded)] == [LoadEnded(1)]

"""Whatever happens between commit and client, what is shown equals the source at its revision, and catches up."""

from typing import cast

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from client.events import FrameReceived, LoadMore
from client.range import Body, Filter
from client.state import State
from shared.contracts.rows import AuthorType
from tests.unit.client.source_model import Name, World, message, turn

AUTHORS: tuple[AuthorType, ...] = ("user", "agent")
FILTERS = (Filter(), Filter(authors=("user",)), Filter(task_id="task"), Filter("task", ("agent",)))


@st.composite
def changes(draw: st.DrawFn) -> tuple[Name, Body | None]:
    """One row written, moved in the order, moved out of a filter, or deleted. Few ids, so that they meet again."""
    number = draw(st.integers(0, 9))
    second = number if draw(st.integers(0, 5)) else draw(st.integers(0, 9))
    task = "other" if draw(st.integers(0, 5)) == 0 else "task"
    if draw(st.integers(0, 3)) == 0:
        name: Name = ("turn", f"t{number}")
        return name, draw(st.none() | st.booleans().map(lambda done: turn(name[1], second, done, task)))
    name = ("message", f"m{number}")
    if draw(st.integers(0, 4)) == 0:
        return name, None
    return name, message(
        name[1], second, draw(st.sampled_from("abcdefgh")), author=draw(st.sampled_from(AUTHORS)), task=task
    )


class FaultyWorld(RuleBasedStateMachine):
    """Every fault between the source and one client, in any order."""

    world: World

    @initialize(
        scope_filter=st.sampled_from(FILTERS),
        chance=st.sampled_from((0.0, 0.5, 0.99)),
        rows=st.lists(changes(), max_size=12),
    )
    def begin(self, scope_filter: Filter, chance: float, rows: list[tuple[Name, Body | None]]) -> None:
        self.world = World(scope_filter, chance=chance, observe=self.never_goes_back)
        self.epochs = 0
        self.world.commit(*rows)
        self.world.unpublished.clear()
        self.world.connect()

    @staticmethod
    def never_goes_back(before: State, after: State) -> None:
        if before.held is not None and after.held is not None and before.held.epoch == after.held.epoch:
            assert after.held.revision >= before.held.revision

    @rule(rows=st.lists(changes(), min_size=1, max_size=4), statements=st.integers(1, 3))
    def commits(self, rows: list[tuple[Name, Body | None]], statements: int) -> None:
        self.world.commit(*rows, statements=statements)

    @rule(count=st.integers(1, 3), join=st.booleans())
    def publishes(self, count: int, join: bool) -> None:
        self.world.publish(count, join)

    @rule(rows=st.lists(changes(), min_size=1, max_size=2))
    def commits_and_publishes(self, rows: list[tuple[Name, Body | None]]) -> None:
        self.world.commit(*rows)
        self.world.publish()

    @rule(lost=st.lists(changes(), min_size=1, max_size=3), kept=st.lists(changes(), max_size=3))
    def loses_a_change_between_others(
        self, lost: list[tuple[Name, Body | None]], kept: list[tuple[Name, Body | None]]
    ) -> None:
        self.world.publish()
        self.world.commit(*lost)
        self.world.unpublished.clear()
        self.world.commit(*kept)
        self.world.publish()
        self.world.deliver()

    @rule(rows=st.lists(changes(), min_size=1, max_size=3), then=st.booleans())
    def loads_more_while_rows_change(self, rows: list[tuple[Name, Body | None]], then: bool) -> None:
        self.world.publish()
        self.world.deliver()
        self.world.feed(LoadMore())
        for row in rows:
            self.world.commit(row)
            self.world.publish()
            if then:
                self.world.deliver()

    @rule()
    def catches_up(self) -> None:
        self.world.settle()

    @rule()
    def flushes(self) -> None:
        self.world.flush()

    @rule(count=st.integers(1, 4))
    def delivers(self, count: int) -> None:
        self.world.deliver(count)

    @rule(resume=st.booleans(), join=st.booleans())
    def opens(self, resume: bool, join: bool) -> None:
        self.world.open_scope(resume, join)

    @rule(rows=st.lists(changes(), max_size=4), lost=st.booleans(), resume=st.booleans(), join=st.booleans())
    def is_away_for_a_moment(self, rows: list[tuple[Name, Body | None]], lost: bool, resume: bool, join: bool) -> None:
        self.world.disconnect()
        for row in rows:
            self.world.commit(row)
        if lost:
            self.world.unpublished.clear()
        self.world.publish()
        self.world.connect()
        self.world.open_scope(resume, join)

    @rule()
    def checks(self) -> None:
        self.world.check()

    @rule()
    def resets(self) -> None:
        self.world.reset()

    @rule(data=st.data())
    def damages_the_wire(self, data: st.DataObject) -> None:
        wire = self.world.downstream
        frames = [number for number, event in enumerate(wire) if isinstance(event, FrameReceived)]
        if not frames:
            return
        number = data.draw(st.sampled_from(frames))
        match data.draw(st.sampled_from(("drop", "repeat", "late", "swap", "garble"))):
            case "drop":
                del wire[number]
            case "repeat":
                wire.insert(number, wire[number])
            case "late":
                wire.append(wire[number])
            case "swap":
                other = data.draw(st.sampled_from(frames))
                wire[number], wire[other] = wire[other], wire[number]
            case _:
                payload = cast("FrameReceived", wire[number]).payload
                wire[number] = FrameReceived({**payload, "operations": [{"kind": "upsert"}]}, 200)

    @precondition(lambda self: self.world.reads)
    @rule(data=st.data())
    def answers(self, data: st.DataObject) -> None:
        world = self.world
        index = data.draw(st.integers(0, len(world.reads) - 1))
        asked = world.reads[index]
        least = asked.least if asked.epoch == world.source.epoch else 0
        world.answer(index, data.draw(st.sampled_from(world.source.boundaries(least))))

    @precondition(lambda self: self.world.reads)
    @rule()
    def answers_everything(self) -> None:
        self.world.answer_all()

    @precondition(lambda self: self.world.reads)
    @rule(data=st.data())
    def answers_from_a_replica_that_lags(self, data: st.DataObject) -> None:
        self.world.answer(0, data.draw(st.sampled_from(self.world.source.boundaries(0))))

    @precondition(lambda self: self.world.reads)
    @rule(status=st.sampled_from((0, 400, 409, 503)))
    def fails(self, status: int) -> None:
        self.world.fail(status)

    @rule(seconds=st.sampled_from((0.05, 0.5, 1.0, 2.5)))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds
        self.world.feed_tick()

    @rule()
    def loads_more(self) -> None:
        self.world.feed(LoadMore())

    @rule(connected=st.booleans())
    def connection_changes(self, connected: bool) -> None:
        if connected:
            self.world.connect()
        else:
            self.world.disconnect()

    @rule(revision=st.integers(0, 5), rows=st.lists(changes(), max_size=6))
    def epoch_changes(self, revision: int, rows: list[tuple[Name, Body | None]]) -> None:
        self.epochs += 1
        restored = {name: body for name, body in rows if body is not None}
        self.world.mint(f"epoch-{self.epochs}", revision, restored)

    @rule()
    def comes_to_rest(self) -> None:
        world = self.world
        world.settle()
        assert world.state.live
        assert world.state.held is not None
        assert (world.state.held.epoch, world.state.held.revision) == (world.source.epoch, world.source.revision)
        while world.state.held.has_more:
            world.feed(LoadMore())
            world.settle()
        assert world.shown() == world.expected(world.source.epoch, world.source.revision, None)

    @invariant()
    def shows_the_source_at_its_revision(self) -> None:
        held = self.world.state.held
        if held is not None:
            assert self.world.shown() == self.world.expected(held.epoch, held.revision, held.messages.low)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.comes_to_rest()


TestFaultyWorld = FaultyWorld.TestCase
TestFaultyWorld.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_frames_on_both_sides_of_a_lost_commit_leave_apart() -> None:
    """The gateway of the model keeps G5 as the real one does: it joins nothing across a hole."""
    world = World().go_live()
    world.put(message("m0", 0))
    world.publish(join=True)
    world.commit((("message", "m0"), None))
    world.unpublished.clear()
    world.commit()
    world.publish()
    world.deliver()
    assert world.state.counters.gaps == 1
    world.settle()
    assert world.shown() == {}

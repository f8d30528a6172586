"""Which reads a reader takes on, and in which order."""

import pytest

from services.reader.admission import Lane, Pace, cost_of
from shared.contracts.errors import RequestFailed
from shared.contracts.identity import LOCAL_USER
from shared.contracts.reads import MessagesPage, Read, ReadRequest, RevisionCheck, SessionSearch, WorkspaceList

NOW = 1000.0
PAGE = MessagesPage(identity=LOCAL_USER, session_id="s", limit=20)


class Clock:
    """Seconds, moved on by hand; for both clocks."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def request(number: int = 0, asker: str = "g1", seconds: float = 5.0, read: Read = PAGE) -> ReadRequest:
    return ReadRequest(request_id=str(number), reply_to=asker, deadline=int((NOW + seconds) * 1000), read=read)


def lane(at_work: int = 10, waiting: int = 1000) -> tuple[Lane, Clock]:
    clock = Clock()
    return Lane(at_work, waiting, Pace(clock), clock), clock


def refusal(lane: Lane, offered: ReadRequest) -> RequestFailed:
    with pytest.raises(RequestFailed) as refused:
        lane.offer(offered)
    assert refused.value.failure.code == "unavailable"
    return refused.value


def measured(lane: Lane, clock: Clock, seconds: float) -> None:
    """Lets the lane find that one page takes so long."""
    lane.offer(request(seconds=1e6))
    for _ in range(1000):
        lane.offer(request(seconds=1e6))
        admitted = lane.next()
        assert admitted is not None
        clock.now += seconds
        lane.finished(admitted)
    last = lane.next()
    assert last is not None
    lane.finished(last)
    clock.now = NOW


def test_what_costs_more_is_said_to() -> None:
    reads: list[Read] = [
        WorkspaceList(identity=LOCAL_USER),
        RevisionCheck(identity=LOCAL_USER, sessions=tuple(str(number) for number in range(100))),
        PAGE,
        MessagesPage(identity=LOCAL_USER, session_id="s", limit=100),
        SessionSearch(identity=LOCAL_USER, session_id="s", query="x"),
    ]
    costs = [cost_of(read) for read in reads]
    assert costs == sorted(set(costs))
    assert cost_of(MessagesPage(identity=LOCAL_USER, session_id="s", limit=None)) == costs[-1]


def test_at_work_up_to_the_bound_and_what_never_fits_alone() -> None:
    single, _ = lane(at_work=2 * cost_of(PAGE))
    for number in range(3):
        single.offer(request(number))
    first, second = single.next(), single.next()
    assert first is not None
    assert second is not None
    assert single.next() is None
    single.finished(first)
    third = single.next()
    assert third is not None
    single.offer(request(3, read=MessagesPage(identity=LOCAL_USER, session_id="s", limit=None)))
    single.finished(second)
    assert single.next() is None
    single.finished(third)
    assert single.next() is not None


def test_askers_take_turns() -> None:
    shared, _ = lane(at_work=1000)
    for number in range(6):
        shared.offer(request(number, "storm"))
    for number in range(2):
        shared.offer(request(number, "calm"))
    order = []
    while (admitted := shared.next()) is not None:
        order.append((admitted.request.reply_to, admitted.request.request_id))
    assert order[:4] == [("storm", "0"), ("calm", "0"), ("storm", "1"), ("calm", "1")]
    assert [name for name, _ in order[4:]] == ["storm"] * 4


def test_waiting_is_bounded_and_each_asker_has_a_part_of_it() -> None:
    shared, _ = lane(waiting=10 * cost_of(PAGE))
    for number in range(10):
        shared.offer(request(number, "storm"))
    refusal(shared, request(10, "storm"))
    for number in range(5):
        shared.offer(request(number, "calm"))
    refusal(shared, request(5, "calm"))


def test_what_cannot_be_answered_in_time_is_refused_with_a_time_to_ask_again() -> None:
    slow, clock = lane(at_work=cost_of(PAGE))
    measured(slow, clock, seconds=1.0)
    for number in range(5):
        slow.offer(request(number, seconds=5.5))
    assert refusal(slow, request(5, seconds=5.5)).failure.details == {"retry_after": 6}
    slow.offer(request(9, seconds=60))
    refusal(slow, request(10, seconds=0.5))


def test_a_storm_does_not_make_others_late() -> None:
    slow, clock = lane(at_work=cost_of(PAGE), waiting=100_000)
    measured(slow, clock, seconds=1.0)
    for number in range(100):
        slow.offer(request(number, "storm", seconds=1000))
    slow.offer(request(0, "calm", seconds=3))
    refusal(slow, request(1, "calm", seconds=3))


def test_nothing_is_refused_before_the_pace_is_known_nor_by_pauses() -> None:
    single, clock = lane()
    for number in range(100):
        single.offer(request(number, seconds=0.1))
    idle, clock = lane()
    for number in range(10):
        idle.offer(request(number, seconds=100_000))
        admitted = idle.next()
        assert admitted is not None
        clock.now += 60
        idle.finished(admitted)
        clock.now += 60
    clock.now = NOW
    idle.offer(request(11, seconds=0.1))
    idle.offer(request(12, seconds=0.1))


def test_the_next_in_line_is_always_taken_on() -> None:
    slow, clock = lane(at_work=cost_of(PAGE))
    measured(slow, clock, seconds=1.0)
    slow.offer(request(0, seconds=0.1))
    assert slow.next() is not None
    slow.offer(request(1, seconds=0.1))
    refusal(slow, request(2, seconds=0.1))


def test_a_database_that_stood_still_slows_nothing_down_afterwards() -> None:
    stalled, clock = lane(at_work=cost_of(PAGE))
    measured(stalled, clock, seconds=0.001)
    for number in range(3):
        stalled.offer(request(number, seconds=1000))
    for seconds in (0, 300):
        admitted = stalled.next()
        assert admitted is not None
        clock.now += seconds
        stalled.finished(admitted)
    clock.now = NOW
    for number in range(100):
        stalled.offer(request(number, seconds=3))


def test_the_pace_is_that_of_the_last_reads() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.finished(4, busy=True)
    for _ in range(500):
        clock.now += 0.8
        pace.finished(4, busy=True)
    assert pace.seconds(10) == pytest.approx(2.0, rel=0.01)
    for _ in range(500):
        clock.now += 0.08
        pace.finished(4, busy=True)
    assert pace.seconds(10) == pytest.approx(0.2, rel=0.01)


def test_one_that_rests_leaves_its_place_and_comes_before_those_that_have_not_begun() -> None:
    places, _ = lane(at_work=cost_of(PAGE))
    for number in range(3):
        places.offer(request(number))
    first = places.next()
    assert first is not None
    assert places.next() is None
    places.rests(first)
    second = places.next()
    assert second is not None
    places.returns(first)
    assert places.busy
    assert places.next() is None
    places.finished(second)
    assert places.next() is first
    assert places.next() is None
    places.finished(first)
    assert places.next() is not None


@pytest.mark.parametrize("returned", [False, True])
def test_one_that_is_given_up_at_rest_takes_no_place(returned: bool) -> None:
    places, _ = lane(at_work=cost_of(PAGE))
    for number in range(2):
        places.offer(request(number))
    first = places.next()
    assert first is not None
    places.rests(first)
    if returned:
        places.returns(first)
    places.finished(first)
    assert places.next() is not None
    assert places.next() is None

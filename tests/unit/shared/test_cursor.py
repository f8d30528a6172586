"""Where a reader goes on after a reconnect (G9)."""

from hypothesis import given
from hypothesis import strategies as st

from shared.broker.cursor import entry_key, resumed

IDS = st.builds(lambda milliseconds, number: b"%d-%d" % (milliseconds, number), st.integers(0, 99), st.integers(0, 99))


def test_a_stream_that_went_on_is_read_on() -> None:
    assert resumed({"a": b"5-3"}, {"a": b"9-0"}) == ({"a": b"5-3"}, frozenset())
    assert resumed({"a": b"5-3"}, {"a": b"5-3"}) == ({"a": b"5-3"}, frozenset())


def test_a_stream_that_is_behind_began_anew() -> None:
    assert resumed({"a": b"5-3", "b": b"7-0"}, {"a": b"5-2", "b": b"7-0"}) == (
        {"a": b"5-2", "b": b"7-0"},
        frozenset({"a"}),
    )
    assert resumed({"a": b"5-3"}, {"a": b"0-0"}) == ({"a": b"0-0"}, frozenset({"a"}))


def test_ids_are_compared_as_numbers() -> None:
    assert entry_key(b"10-2") > entry_key(b"9-9")
    assert entry_key(b"9-10") > entry_key(b"9-9")
    assert resumed({"a": b"9-9"}, {"a": b"10-0"})[1] == frozenset()


@given(st.dictionaries(st.sampled_from("abc"), st.tuples(IDS, IDS)))
def test_no_reader_waits_beyond_the_end_of_its_stream(streams: dict[str, tuple[bytes, bytes]]) -> None:
    held = {name: each[0] for name, each in streams.items()}
    found = {name: each[1] for name, each in streams.items()}
    positions, anew = resumed(held, found)
    for name, position in positions.items():
        assert entry_key(position) <= entry_key(found[name])
        assert position == (found[name] if name in anew else held[name])

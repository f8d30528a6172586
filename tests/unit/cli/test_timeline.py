from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cli.transcripts.timeline import LONGEST_PORTION, Moment, portions, timeline
from tests.unit.cli.recording import example, opened, prompt, tool


def test_a_session_happens_in_order_with_gaps_capped(tmp_path: Path) -> None:
    with opened(tmp_path / "t", example()) as transcript:
        steps = timeline(transcript.plan.sessions[0], 1.5)

    assert [step.moment for step in steps] == [
        Moment.PROMPTS,
        Moment.SAYS,
        Moment.SAYS,
        Moment.SAYS,
        Moment.RESULT,
        Moment.SAYS,
        Moment.RESULT,
        Moment.SAYS,
        Moment.COMPLETES,
        Moment.PROMPTS,
        Moment.SAYS,
        Moment.COMPLETES,
    ]
    assert [step.pause for step in steps] == [1.5, 1, 1.5, 1, 1, 1.5, 1, 0, 1.5, 1, 0, 0]


def test_a_turn_without_work_starts_ends_and_gives_way_to_the_next(tmp_path: Path) -> None:
    with opened(tmp_path / "t", [prompt(0, "one"), tool(1, "t", "Task"), prompt(1, "two"), prompt(1, "three")]) as held:
        steps = timeline(held.plan.sessions[0], 1)
        turns = held.plan.sessions[0].turns

    assert [(step.moment, step.turn and turns.index(step.turn)) for step in steps] == [
        (Moment.PROMPTS, 0),
        (Moment.SAYS, None),
        (Moment.COMPLETES, 0),
        (Moment.PROMPTS, 1),
        (Moment.COMPLETES, 1),
        (Moment.PROMPTS, 2),
        (Moment.COMPLETES, 2),
    ]


@given(st.text(max_size=20_000), st.floats(0, 100))
def test_portions_join_to_the_text(text: str, seconds: float) -> None:
    cut = portions(text, seconds)
    assert "".join(cut) == text
    assert all(cut) or cut == [""]
    assert max(map(len, cut)) <= LONGEST_PORTION


def test_a_text_with_time_is_streamed_in_small_portions_and_one_without_in_few() -> None:
    assert {len(part) for part in portions("x" * 600, 10)} == {60}
    assert len(portions("x" * 6_000, 0.01)) == 4

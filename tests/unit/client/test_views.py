"""What `tail` prints for a state."""

from datetime import UTC, datetime, timedelta, timezone
from io import StringIO

import orjson
from rich.console import Console

from cli.tail_lines import AppendedLines, JsonLines
from cli.tail_screen import Screen
from cli.tail_text import Clock, last_part, one_line
from client.events import LoadMore, RowsChanged
from client.range import Body
from tests.unit.client.source_model import SESSION, World, message, turn

SAME_DAY = Clock(UTC, datetime(2026, 1, 1, 12, tzinfo=UTC))


class Followed:
    """A world, and the lines that a view of it wrote."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lines: list[str] = []
        self.view = AppendedLines(self.lines.append, SAME_DAY)
        self.show()

    def show(self) -> list[str]:
        """The lines of what happened since."""
        before = len(self.lines)
        changes = [
            change for effect in self.world.effects if isinstance(effect, RowsChanged) for change in effect.changes
        ]
        self.world.effects.clear()
        self.view.show(self.world.state, tuple(changes))
        return [line for line in self.lines[before:] if not line.startswith("--")]

    def put(self, *bodies: Body) -> list[str]:
        self.world.put(*bodies)
        self.world.publish()
        self.world.deliver()
        return self.show()

    def repair(self) -> list[str]:
        self.world.now += 10
        self.world.reset()
        self.world.settle()
        return self.show()


def followed() -> World:
    world = World()
    prompt = message("m1", 1, "Tidy the\n  [bold]kitchen[/bold]").model_copy(
        update={"prompt_index": 4, "type": "message"}
    )
    world.put(prompt, message("m2", 2, "Done.", author="agent"), turn("t1", 1))
    return world.go_live()


def changes(world: World) -> RowsChanged:
    return next(effect for effect in world.effects if isinstance(effect, RowsChanged))


def test_lines_are_appended_oldest_first_and_the_status_when_it_changes() -> None:
    world, lines = followed(), list[str]()
    view = AppendedLines(lines.append, SAME_DAY)
    view.show(world.state, changes(world).changes)
    view.show(world.state, ())
    assert lines == [
        "00:00:01  user   message          #4  Tidy the [bold]kitchen[/bold]",
        "00:00:01  turn t1 started",
        "00:00:02  agent  message              Done.",
        "-- live  revision 1  epoch epoch-0  gaps 0  repairs 0  resets 0  frames 0",
    ]


def test_turns_of_messages_that_are_not_loaded_are_left_out() -> None:
    world, lines = World(page_rows=2), list[str]()
    world.put(*(message(f"m{number}", number) for number in range(4)), turn("t1", 1), turn("t3", 3))
    AppendedLines(lines.append, SAME_DAY).show(world.go_live().state, changes(world).changes)
    assert [line.split()[1:3] for line in lines[:-1]] == [["user", "message"], ["user", "message"], ["turn", "t3"]]


def test_json_lines_carry_whole_rows_and_counters() -> None:
    world, lines = followed(), list[str]()
    view = JsonLines(lines.append)
    view.show(world.state, changes(world).changes)
    world.effects.clear()
    world.commit((("message", "m1"), None))
    world.publish()
    world.deliver()
    view.show(world.state, changes(world).changes)
    rows = [orjson.loads(line) for line in lines]
    assert [(row["event"], row.get("kind"), row.get("id")) for row in rows] == [
        ("row", "upsert", "m1"),
        ("row", "upsert", "m2"),
        ("row", "upsert", "t1"),
        ("state", None, None),
        ("row", "remove", "m1"),
    ]
    assert rows[0]["message"]["prompt_index"] == 4
    assert rows[3]["status"] == "live"
    assert rows[3]["counters"]["reads"] == 2
    assert rows[4]["revision"] == "2"


def test_the_screen_shows_the_newest_rows_that_fit() -> None:
    world = World(page_rows=100)
    world.put(*(message(f"m{number:02d}", number, f"row {number}") for number in range(50)))
    world.go_live()
    screen = Screen(SESSION, 20)
    console = Console(file=StringIO(), width=80, height=8, force_terminal=False)
    with console.capture() as capture:
        console.print(screen.render())
        screen.show(world.state, ())
        console.print(screen.render())
    lines = capture.get().splitlines()
    assert lines[0] == f"{SESSION}: connecting"
    assert [line.split()[-1] for line in lines[1:-1]] == ["44", "45", "46", "47", "48", "49"]
    assert lines[-1].startswith("live  revision 1")


def test_content_is_one_line_that_cannot_steer_the_terminal() -> None:
    assert one_line("a\n\tb  c\x1b[2Jd") == "a b c [2Jd"
    assert one_line("x" * 10_000_000, 10) == "x" * 9 + "…"
    assert one_line("short", 10) == "short"


def test_the_end_of_a_text_is_one_line_too() -> None:
    assert last_part("short", 10) == "short"
    assert last_part("a\n" * 5_000_000 + "the end", 10) == "…a the end"
    assert last_part("x" * 11, 10) == "…" + "x" * 9
    assert last_part("y\x1b[2J", 10) == "y [2J"


def test_a_text_that_grows_shows_its_end_and_no_line_twice() -> None:
    story = Followed(World().go_live())
    begun = story.put(message("m1", 1, "a" * 400, author="agent"))
    grown = [story.put(message("m1", 1, "a" * 400 + "b" * number, author="agent")) for number in (1, 2)]
    rewritten = story.put(message("m1", 1, "c", author="agent"))
    same = story.put(message("m1", 1, "c", author="agent").model_copy(update={"metadata": {"seen": True}}))
    assert begun[0].endswith("a…")
    assert [lines[0][-3:] for lines in grown] == ["aab", "abb"]
    assert all("…" in lines[0] for lines in grown)
    assert rewritten[0].endswith("  c")
    assert same == []


def test_a_repair_prints_no_row_again_and_none_from_before() -> None:
    world = World(page_rows=4)
    world.put(*(message(f"m{number:02d}", number) for number in range(20)))
    story = Followed(world.go_live())
    assert len(story.lines) == 5
    for number in range(20, 26):
        story.put(message(f"m{number:02d}", number))
        assert story.repair() == []
    story.world.commit(*((("message", row_id), None) for _, row_id in world.shown()))
    story.world.publish()
    story.world.deliver()
    assert all("no longer shown" in line for line in story.show())
    assert story.repair() == [], "what is loaded in their place is older than every line"


def test_rows_that_a_repair_drops_from_a_long_range_are_not_said_to_be_gone() -> None:
    world = World(page_rows=2)
    story = Followed(world.go_live())
    for number in range(10):
        story.put(message(f"m{number}", number))
    assert story.repair() == []
    assert world.has_more()
    world.feed(LoadMore())
    world.answer_all()
    assert story.show() == []
    world.commit((("message", "m9"), None))
    world.publish()
    world.deliver()
    assert story.show() == [f"{'':8}  message m9 is no longer shown"]


def test_turns_that_happen_while_following_are_told_wherever_they_began() -> None:
    world = World(page_rows=2)
    world.put(*(message(f"m{number}", number) for number in range(4)), turn("t1", 1))
    story = Followed(world.go_live())
    assert not any("turn" in line for line in story.lines)
    assert [line.split()[1:] for line in story.put(turn("t1", 1, completed=True))] == [["turn", "t1", "completed"]]
    assert [line.split()[1:] for line in story.put(turn("t9", 9))] == [["turn", "t9", "started"]]


def test_times_are_local_and_have_a_date_unless_it_is_today() -> None:
    zone = timezone(timedelta(hours=2))
    clock = Clock(zone, datetime(2026, 3, 1, 23, tzinfo=UTC))
    assert clock.text("2026-03-01T22:00:00Z") == "00:00:00"
    assert clock.text("2026-03-01T21:59:59.5Z") == "2026-03-01 23:59:59"
    assert clock.text("2026-03-02T22:00:00Z") == "2026-03-03 00:00:00"
    assert clock.text("9999-12-31T23:59:59.999999Z") == "9999-12-31 23:59:59"
    assert Clock(timezone(timedelta(hours=-2))).text("0001-01-01T00:00:00Z") == "0001-01-01 00:00:00"


def test_the_screen_shows_the_end_of_what_grows_and_turns_in_their_place() -> None:
    world = World().go_live()
    screen = Screen(SESSION, 20, SAME_DAY)
    console = Console(file=StringIO(), width=100, height=8, force_terminal=False)
    for content in ("b" * 200, "b" * 200 + "界" * 3 + "end"):
        world.put(message("m1", 1, content, author="agent"), turn("t1", 1), message("m2", 2, "later"))
        world.publish()
        world.deliver()
        for effect in world.effects:
            if isinstance(effect, RowsChanged):
                screen.show(world.state, effect.changes)
        world.effects.clear()
    with console.capture() as capture:
        console.print(screen.render())
    first, second, third, _ = capture.get().splitlines()
    assert first.rstrip().endswith("界界界end")
    assert "…" in first
    assert second.split()[1:] == ["turn", "turn", "t1", "started"]
    assert third.split()[-1] == "later"

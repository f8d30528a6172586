"""What `tail` prints for a state."""

from io import StringIO

import orjson
from rich.console import Console

from cli.tail_lines import AppendedLines, JsonLines, one_line
from cli.tail_screen import Screen
from client.events import RowsChanged
from tests.unit.client.source_model import SESSION, World, message, turn


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
    view = AppendedLines(lines.append)
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
    AppendedLines(lines.append).show(world.go_live().state, changes(world).changes)
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

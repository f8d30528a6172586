import io

from cli.transcripts.lines import read_lines


def test_every_line_comes_with_its_number_and_bytes() -> None:
    file = io.BytesIO(b"\xef\xbb\xbfone\r\n\ntwo")

    read = list(read_lines(file))

    assert [(place.number, raw) for place, raw in read] == [(1, b"one"), (2, b""), (3, b"two")]
    for place, raw in read:
        file.seek(place.offset)
        assert file.read(place.length).rstrip(b"\r\n") == raw


def test_a_line_that_is_too_long_is_passed_over_and_the_next_one_read() -> None:
    file = io.BytesIO(b"a" * 11 + b"\n" + b"b" * 10 + b"\n" + b"c" * 5_000_000)

    read = list(read_lines(file, limit=10))

    assert [(place.number, place.length, raw) for place, raw in read] == [
        (1, 12, None),
        (2, 11, b"b" * 10),
        (3, 5_000_000, None),
    ]

"""What an import may replace of what is stored."""

from collections.abc import Mapping

import pytest

from cli.transcripts.completing import Standing, standing
from cli.transcripts.contents import Contents

CALL = {"tool_name": "Bash", "input": {"command": "ls"}}
FILE = Contents("Bash: ls\n\na file", {**CALL, "result": "a file", "is_error": False}, "Bash: ls", CALL)
OLDER = Contents("Bash: ls", CALL, "Bash: ls", CALL)


@pytest.mark.parametrize(
    ("content", "metadata", "expected"),
    [
        (FILE.content, FILE.metadata, Standing.SAME),
        (FILE.call, CALL, Standing.UNFINISHED),
        (FILE.content, CALL, Standing.UNFINISHED),
        ("", {}, Standing.UNFINISHED),
        (FILE.content + "!", FILE.metadata, Standing.OTHERWISE),
        ("bash: ls", CALL, Standing.OTHERWISE),
        (FILE.call, {**CALL, "by": "hand"}, Standing.OTHERWISE),
        (FILE.call, {**CALL, "input": {"command": "rm"}}, Standing.OTHERWISE),
    ],
)
def test_only_a_beginning_is_unfinished(content: str, metadata: Mapping[str, object], expected: Standing) -> None:
    assert standing(content, metadata, FILE) is expected


def test_an_older_file_is_never_the_end_of_what_is_stored() -> None:
    assert standing(FILE.content, FILE.metadata, OLDER) is Standing.OTHERWISE
    assert standing(FILE.call, FILE.metadata, OLDER) is Standing.OTHERWISE

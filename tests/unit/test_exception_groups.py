"""No error leaves an `except*` clause: Python before 3.11.4 puts it into a group, which no caller expects."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("cli", "client", "deploy", "services", "shared")


def raised(source: str) -> list[int]:
    """Lines on which something is raised inside an `except*` clause."""
    clauses = [
        handler for node in ast.walk(ast.parse(source)) if isinstance(node, ast.TryStar) for handler in node.handlers
    ]
    return [node.lineno for clause in clauses for node in ast.walk(clause) if isinstance(node, ast.Raise)]


def test_a_raise_in_a_clause_is_found() -> None:
    assert raised("try:\n    work()\nexcept* ValueError as errors:\n    raise errors.exceptions[0]\n") == [4]
    assert raised("try:\n    work()\nexcept ValueError:\n    raise\n") == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_clause_raises(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    assert [f"{file}:{line}" for file in files for line in raised(file.read_text())] == []

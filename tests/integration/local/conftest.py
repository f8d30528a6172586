"""Fixtures of the embedded stack's tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.local.terminal import Terminal


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A terminal in a folder that other users may enter."""
    with tempfile.TemporaryDirectory(prefix="kandev-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        terminal = Terminal(folder)
        yield terminal
        terminal.close()

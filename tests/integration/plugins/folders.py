"""What lies in a folder."""

from pathlib import Path


def names(folder: Path) -> list[str]:
    """The names in a folder, in order."""
    return sorted(path.name for path in folder.iterdir())

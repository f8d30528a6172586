"""Files under `docs` that are made from the code: written, or with `--check` compared."""

import sys
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def settle(name: str, made: bytes, module: str, arguments: Sequence[str]) -> int:
    """Writes `docs/{name}`; with `--check` among the arguments, tells whether it is up to date, as an exit code.
    `module` makes it.
    """
    path = DOCS / name
    if "--check" not in arguments:
        path.write_bytes(made)
        return 0
    if path.exists() and path.read_bytes() == made:
        return 0
    sys.stderr.write(f"docs/{name} is not up to date: run `python -m {module}` and commit it\n")
    return 1

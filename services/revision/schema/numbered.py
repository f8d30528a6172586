"""The numbered SQL files: what there is to apply."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

OUTSIDE_A_TRANSACTION = "-- run: outside a transaction"
"""First line of a file whose statements run one by one, each committed alone, and each fit to be repeated."""

_FILE_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_COMMENT_LINE = re.compile(r"^\s*--.*$", re.MULTILINE)


class SchemaError(Exception):
    """The database cannot be brought to this schema, or away from it; the text says what to do."""


@dataclass(frozen=True)
class Migration:
    """One file: `version` from its name, `checksum` the SHA-256 of its bytes in hex."""

    version: int
    name: str
    sql: str
    checksum: str

    @property
    def transactional(self) -> bool:
        """Whether the file runs as one transaction."""
        return not self.sql.startswith(OUTSIDE_A_TRANSACTION)

    @property
    def bare(self) -> str:
        """The statements without the lines that are comments."""
        return _COMMENT_LINE.sub("", self.sql)

    def statements(self) -> tuple[str, ...]:
        """The statements of a file that runs outside a transaction; such a file holds no function bodies."""
        return tuple(statement for part in self.bare.split(";") if (statement := part.strip()))


def known_migrations(folder: Path | None = None) -> tuple[Migration, ...]:
    """The numbered files of `folder` (by default our own), by version. `SchemaError`: a number used twice."""
    found: dict[int, Migration] = {}
    for path in sorted((folder or Path(__file__).parent).glob("*.sql")):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None:
            raise SchemaError(f"{path.name}: expected a name like 0001_tables.sql")
        content = path.read_bytes()
        version = int(match["version"])
        if version in found:
            raise SchemaError(
                f"{path.name}: version {version} is already {found[version].name}; give one of them the next number"
            )
        found[version] = Migration(version, match["name"], content.decode(), hashlib.sha256(content).hexdigest())
    return tuple(found.values())

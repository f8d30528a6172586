"""What the numbered files make in the schema `public`, read from the files themselves: written down once."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from services.revision.schema.numbered import Migration

Kind = Literal["table", "column", "index", "constraint", "trigger"]

_MADE: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("table", re.compile(r"CREATE TABLE IF NOT EXISTS public\.(?P<relation>\w+)")),
    ("column", re.compile(r"ALTER TABLE public\.(?P<relation>\w+)\s+ADD COLUMN IF NOT EXISTS (?P<name>\w+)")),
    (
        "index",
        re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (?P<name>\w+)\s+ON public\.(?P<relation>\w+)"),
    ),
    ("constraint", re.compile(r"ALTER TABLE public\.(?P<relation>\w+)\s+ADD CONSTRAINT (?P<name>\w+)")),
    ("trigger", re.compile(r"CREATE OR REPLACE TRIGGER (?P<name>\w+)\s[^;]*?\sON public\.(?P<relation>\w+)")),
)
_OPTIONS = re.compile(r"ALTER TABLE public\.(?P<relation>\w+)\s+SET \((?P<options>[^)]*)\)")
_IDENTITY = re.compile(
    r"(?P<head>CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS (?P<name>\w+_identity)\s+ON public\.(?P<relation>\w+)\s+)"
    r"\((?P<columns>[^)]*)\)"
)
_SCHEMA = re.compile(r"CREATE SCHEMA IF NOT EXISTS (?P<name>\w+)")
_BODY = re.compile(r"\$\$.*?\$\$", re.DOTALL)
_TRIGGER = re.compile(r"CREATE OR REPLACE TRIGGER [^;]*;")


class Thing(NamedTuple):
    """Something in the schema `public`. `name`: empty for a table itself."""

    kind: Kind
    relation: str
    name: str


class IdentityIndex(NamedTuple):
    """An index that tells the log where a row was: selection and order columns."""

    name: str
    relation: str
    columns: tuple[str, ...]
    head: str

    def without(self, nullable: frozenset[str]) -> str:
        """The statement that builds it over the columns that cannot be NULL: no other index can be an identity."""
        return f"{self.head}({', '.join(column for column in self.columns if column not in nullable)})"


@dataclass(frozen=True)
class Inventory:
    """Reads the files on demand."""

    migrations: Sequence[Migration]

    @cached_property
    def things(self) -> tuple[Thing, ...]:
        """Everything that some file makes, each once, in the order of the files."""
        found: dict[Thing, None] = {}
        for migration in self.migrations:
            matches = [
                (match.start(), Thing(kind, match["relation"], match.groupdict().get("name", "")))
                for kind, pattern in _MADE
                for match in pattern.finditer(migration.bare)
            ]
            found |= dict.fromkeys(thing for _, thing in sorted(matches))
        return tuple(found)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables, in the order in which one refers to another."""
        return tuple(thing.relation for thing in self.things if thing.kind == "table")

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schemas of our own, each once."""
        names = (match["name"] for migration in self.migrations for match in _SCHEMA.finditer(migration.bare))
        return tuple(dict.fromkeys(names))

    @cached_property
    def options(self) -> dict[str, tuple[str, ...]]:
        """By table, the names of the storage options that some file sets on a table that may have been there."""
        return {
            match["relation"]: tuple(option.partition("=")[0].strip() for option in match["options"].split(","))
            for migration in self.migrations
            for match in _OPTIONS.finditer(migration.bare)
        }

    @cached_property
    def identities(self) -> tuple[IdentityIndex, ...]:
        """The indexes that become replica identities."""
        return tuple(
            IdentityIndex(
                match["name"],
                match["relation"],
                tuple(column.strip() for column in match["columns"].split(",")),
                match["head"],
            )
            for migration in self.migrations
            for match in _IDENTITY.finditer(migration.bare)
        )

    @cached_property
    def capture(self) -> tuple[str, ...]:
        """The statements that make the triggers, fit to be repeated; those that depend on a table's form left out."""
        return tuple(
            statement for migration in self.migrations for statement in _TRIGGER.findall(_BODY.sub("", migration.bare))
        )

"""Secret settings: never shown, kept when their mask comes back, and dropped before another schema would reveal them
(all of it pure, and in time linear in the settings).
"""

from collections import Counter
from typing import Any

import orjson

from services.gateway.plugins.settings_schema import Schema, is_secret, of_item, of_property

MASK = "********"
"""What stands for a secret that is set."""

# Any, in this module: settings are JSON that others chose.
Config = dict[str, Any]

_DROPPED = object()


class MaskRefused(Exception):
    """A mask came where it stands for no secret, or not certainly for one. `problems`: a sentence for each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def masked(schema: Schema | None, config: Config) -> Config:
    """The settings as they may be shown: `MASK` for every secret that is set."""
    shown: Config = _masked(schema, config)
    return shown


def restored(schema: Schema | None, submitted: Config, stored: Config) -> Config:
    """The settings that somebody means who was shown masked ones: `MASK` is the secret stored in its place. Raises
    `MaskRefused`.

    In a list another item may stand in a place than did: there a mask counts only in an item that looks as the stored
    one of that place, if no other stored item looks the same or all stored items are still in their places.
    """
    problems: list[str] = []
    config: Config = _restored(schema, submitted, stored, "", problems)
    if problems:
        raise MaskRefused(tuple(problems))
    return config


def carried(before: Schema | None, after: Schema | None, config: Config) -> Config:
    """The settings that an upgrade keeps: those that the new schema names, without what was secret and would not be
    any more.
    """
    described = (after or {}).get("properties", {})
    kept: Config = _carried(before, after, {name: config[name] for name in config if name in described})
    return kept


def _masked(schema: Any, value: Any) -> Any:
    if is_secret(schema):
        return MASK if _is_set(value) else value
    # What no schema describes is not looked into: so this goes no deeper than a schema.
    if isinstance(value, dict) and isinstance(schema, dict):
        return {name: _masked(of_property(schema, name), each) for name, each in value.items()}
    if isinstance(value, list) and isinstance(schema, dict):
        return [_masked(of_item(schema), each) for each in value]
    return value


def _restored(schema: Any, value: Any, stored: Any, place: str, problems: list[str]) -> Any:
    if is_secret(schema):
        if value == MASK and not _is_set(stored):
            problems.append(f"{place} is a mask, and no secret is stored there: give the secret itself")
        return stored if value == MASK else value
    if isinstance(value, dict) and isinstance(schema, dict):
        known = stored if isinstance(stored, dict) else {}
        return {
            name: _restored(
                of_property(schema, name), each, known.get(name), f"{place}.{name}" if place else name, problems
            )
            for name, each in value.items()
        }
    if isinstance(value, list) and isinstance(schema, dict):
        return _restored_items(of_item(schema), value, stored if isinstance(stored, list) else [], place, problems)
    return value


def _restored_items(schema: Any, items: list[Any], stored: list[Any], place: str, problems: list[str]) -> list[Any]:
    looks, known = ([orjson.dumps(_masked(schema, each)) for each in found] for found in (items, stored))
    times = Counter(known)
    in_place = looks[: len(known)] == known
    meant = []
    for index, item in enumerate(items):
        same = index < len(known) and looks[index] == known[index] and (in_place or times[known[index]] == 1)
        refused: list[str] = []
        meant.append(_restored(schema, item, stored[index] if same else None, "", refused))
        if refused:
            problems.append(
                f"{place}[{index}] is not certainly the item whose secret was masked: give its secrets again"
            )
    return meant


def _carried(before: Any, after: Any, value: Any) -> Any:
    if is_secret(after):
        return value
    if is_secret(before):
        return _DROPPED
    if isinstance(value, dict) and isinstance(before, dict):
        inner = {name: _carried(of_property(before, name), of_property(after, name), value[name]) for name in value}
        return {name: each for name, each in inner.items() if each is not _DROPPED}
    if isinstance(value, list) and isinstance(before, dict):
        items = (_carried(of_item(before), of_item(after), each) for each in value)
        return [each for each in items if each is not _DROPPED]
    return value


def _is_set(value: Any) -> bool:
    return value not in (None, "")

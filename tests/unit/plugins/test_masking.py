"""Secret settings: masked, restored, and dropped by an upgrade that would reveal them."""

from typing import Any

import pytest

from services.gateway.plugins.masking import MASK, MaskRefused, carried, masked, restored
from services.gateway.plugins.settings_schema import schema_problems


def described(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


SECRETS = described(
    by_format={"type": "string", "format": "password"},
    by_mark={"type": "string", "secret": True},
    by_extension={"x-secret": True},
    by_standard={"writeOnly": True},
    plain={"secret": False, "format": "uri"},
    nested=described(inner={"secret": True}, open={}),
    listed={"items": {"secret": True}},
    mapped={"additionalProperties": {"format": "password"}, "properties": {"open": {}}},
)
STORED = {
    "by_format": "s1",
    "by_mark": "s2",
    "by_extension": {"any": "s3"},
    "by_standard": ["s4"],
    "plain": "open",
    "nested": {"inner": "s5", "open": "open", "undescribed": 1},
    "listed": ["s6", "s7"],
    "mapped": {"open": "open", "more": "s8"},
    "undescribed": None,
}
SERVERS = described(servers={"items": described(host={}, key={"secret": True})})


def servers(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"servers": [{"host": host, "key": key} for host, key in pairs]}


def test_secrets_are_masked_wherever_they_stand() -> None:
    assert schema_problems(SECRETS) == ()
    shown = masked(SECRETS, STORED)
    assert "'s" not in str(shown)
    assert str(shown).count(MASK) == 8
    assert str(shown).count("open'") == str(STORED).count("open'")
    assert shown["undescribed"] is None


def test_what_is_not_set_is_shown_as_that() -> None:
    assert masked(SECRETS, {"by_mark": "", "by_format": None}) == {"by_mark": "", "by_format": None}


def test_masked_settings_that_come_back_keep_their_secrets() -> None:
    assert restored(SECRETS, masked(SECRETS, STORED), STORED) == STORED
    changed = {**masked(SECRETS, STORED), "by_mark": "new", "plain": MASK}
    assert restored(SECRETS, changed, STORED) == {**STORED, "by_mark": "new", "plain": MASK}


@pytest.mark.parametrize("stored", [{}, {"nested": 1}, {"nested": {"inner": ""}, "by_mark": None}])
def test_a_mask_for_what_is_not_stored_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(MaskRefused) as refused:
        restored(SECRETS, {"by_mark": MASK, "nested": {"inner": MASK}}, stored)
    assert [problem.split()[0] for problem in refused.value.problems] == ["by_mark", "nested.inner"]


TWO = servers(("a", "s1"), ("b", "s2"))
ALIKE = servers(("a", "s1"), ("a", "s2"))


@pytest.mark.parametrize(
    ("stored", "submitted", "meant"),
    [
        (TWO, servers(("a", MASK), ("b", MASK)), TWO),
        (TWO, servers(("a", MASK)), servers(("a", "s1"))),
        (TWO, servers(("a", MASK), ("b", MASK), ("c", "new")), servers(("a", "s1"), ("b", "s2"), ("c", "new"))),
        (TWO, servers(("a", MASK), ("c", "new")), servers(("a", "s1"), ("c", "new"))),
        (TWO, servers(("b", "new"), ("a", "new")), servers(("b", "new"), ("a", "new"))),
        (ALIKE, servers(("a", MASK), ("a", MASK)), ALIKE),
        (ALIKE, servers(("a", "new"), ("a", MASK)), servers(("a", "new"), ("a", "s2"))),
    ],
)
def test_masks_in_a_list_that_stand_for_certain_secrets(stored: Any, submitted: Any, meant: Any) -> None:
    assert restored(SERVERS, submitted, stored) == meant


@pytest.mark.parametrize(
    ("stored", "submitted", "places"),
    [
        (TWO, servers(("b", MASK)), ["servers[0]"]),
        (TWO, servers(("b", MASK), ("a", MASK)), ["servers[0]", "servers[1]"]),
        (TWO, servers(("a", MASK), ("a", MASK)), ["servers[1]"]),
        (TWO, servers(("attacker", MASK), ("b", MASK)), ["servers[0]"]),
        (TWO, servers(("a", MASK), ("b", MASK), ("b", MASK)), ["servers[2]"]),
        (ALIKE, servers(("a", MASK)), ["servers[0]"]),
        (ALIKE, servers(("a", MASK), ("b", "new")), ["servers[0]"]),
    ],
)
def test_masks_in_a_list_that_could_stand_for_another_secret(stored: Any, submitted: Any, places: list[str]) -> None:
    with pytest.raises(MaskRefused, match="give its secrets again") as refused:
        restored(SERVERS, submitted, stored)
    assert [problem.split()[0] for problem in refused.value.problems] == places


def test_a_secret_of_a_removed_item_is_not_taken_by_the_next() -> None:
    with pytest.raises(MaskRefused):
        restored(SECRETS, {"listed": [MASK]}, STORED)


def test_true_is_not_taken_for_one() -> None:
    schema = described(servers={"items": described(port={}, key={"secret": True})})
    stored = {"servers": [{"port": 1, "key": "s"}]}
    with pytest.raises(MaskRefused):
        restored(schema, {"servers": [{"port": True, "key": MASK}]}, stored)


def test_without_a_schema_nothing_is_secret() -> None:
    assert masked(None, {"a": "b"}) == {"a": "b"}
    assert restored(None, {"a": MASK}, {"a": "b"}) == {"a": MASK}


PLAIN, SECRET = {"type": "string"}, {"type": "string", "format": "password"}


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (described(a=PLAIN), described(a=PLAIN), True),
        (described(a=SECRET), described(a=SECRET), True),
        (described(a=PLAIN), described(a=SECRET), True),
        (described(a=SECRET), described(a=PLAIN), False),
        (described(a=PLAIN), described(b=PLAIN), False),
        (described(a=SECRET), None, False),
        (None, described(a=PLAIN), True),
    ],
)
def test_settings_that_an_upgrade_keeps(before: Any, after: Any, kept: bool) -> None:
    assert carried(before, after, {"a": "value"}) == ({"a": "value"} if kept else {})


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        (described(a=described(x=SECRET, y=SECRET, z=PLAIN)), {"a": {"x": "s1", "y": "s2", "z": "open"}}),
        (described(a=described(x=PLAIN, y=SECRET, z=PLAIN)), {"a": {"y": "s2", "z": "open"}}),
        (described(a=described(x=SECRET, z=PLAIN)), {"a": {"x": "s1", "z": "open"}}),
        (described(a={}), {"a": {"z": "open"}}),
        (described(a={"additionalProperties": SECRET}), {"a": {"x": "s1", "y": "s2", "z": "open"}}),
    ],
)
def test_an_upgrade_drops_single_secrets_at_any_depth(after: Any, kept: Any) -> None:
    before = described(a=described(x=SECRET, y=SECRET, z=PLAIN))
    assert carried(before, after, {"a": {"x": "s1", "y": "s2", "z": "open"}}) == kept


def test_an_upgrade_drops_secrets_in_lists_and_whole_secret_objects() -> None:
    config = servers(("a", "s1"), ("b", "s2"))
    after = described(servers={"items": described(host={}, key={})})
    assert carried(SERVERS, after, config) == {"servers": [{"host": "a"}, {"host": "b"}]}
    whole = described(a={"writeOnly": True})
    assert carried(whole, described(a=described(x=SECRET)), {"a": {"x": "s1", "y": "s2"}}) == {}
    assert carried(described(a={"items": SECRET}), described(a={"items": PLAIN}), {"a": ["s"]}) == {"a": []}

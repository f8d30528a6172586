"""Key combinations as manifests write them: `mod+shift+k`, in any case. `mod` is Command on a Mac, and else Control."""

import string
from collections.abc import Iterator

_PLAIN_MODIFIERS = frozenset({"mod", "ctrl", "control", "cmd", "meta", "alt", "option"})
_SHIFT = "shift"
_LETTERS = frozenset(string.ascii_lowercase)
_ALTERED_BY_SHIFT = frozenset(string.digits) | frozenset("`-=[]\\;',./")
"""Keys that stand for another character while shift is held: what is pressed depends on the keyboard's layout."""

_NAMED = frozenset(
    {"enter", "escape", "esc", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"}
    | {"up", "down", "left", "right", "arrowup", "arrowdown", "arrowleft", "arrowright"}
    | {f"f{number}" for number in range(1, 25)}
)
_KEYS = _LETTERS | _ALTERED_BY_SHIFT | _NAMED


def combo_problems(combo: str) -> Iterator[str]:
    """Why the combination cannot be pressed."""
    if not combo.strip():
        yield "must not be empty"
        return
    tokens = _tokens(combo)
    keys = [token for token in tokens if token in _KEYS]
    unknown = [token for token in tokens if token not in _KEYS | _PLAIN_MODIFIERS | {_SHIFT}]
    yield from (f'has an unknown key "{token[:20]}"' for token in unknown)
    if not unknown and len(keys) != 1:
        yield f"must have exactly one key besides its modifiers, not {len(keys)}"
    if _SHIFT in tokens:
        yield from (
            f'must not combine shift with "{key}", which shift alters' for key in keys if key in _ALTERED_BY_SHIFT
        )


def works_in_editor(combo: str) -> bool:
    """Whether somebody who writes would not press it: it has a modifier besides shift."""
    return bool(_PLAIN_MODIFIERS.intersection(_tokens(combo)))


def _tokens(combo: str) -> list[str]:
    return [token.strip() for token in combo.lower().split("+")]

"""What a plugin adds to the browser: pages, a bundle, styles, key bindings."""

import re
from collections.abc import Iterator

from services.gateway.plugins.declarations import Keybinding, Manifest
from services.gateway.plugins.paths import path_problem
from services.gateway.plugins.rules.combos import combo_problems, works_in_editor
from services.gateway.plugins.rules.terms import repeated, shown

SURFACES = ("settings", "task-panel", "main-nav")

_SURFACES = ", ".join(SURFACES)
_SLUG = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")


def interface(manifest: Manifest) -> Iterator[str]:
    """Everything below `ui`."""
    ui = manifest.ui
    for page in ui.pages:
        if page.surface not in SURFACES:
            yield f"unknown ui surface {shown(page.surface)} for page {shown(page.key)}: expected one of {_SURFACES}"
    if ui.bundle:
        yield from _asset("ui.bundle", ui.bundle)
    for style in ui.styles:
        yield from _asset("ui.styles entry", style)
    if ui.keybindings and not ui.bundle:
        yield "ui.keybindings requires ui.bundle to be set"
    for binding in ui.keybindings:
        yield from _keybinding(binding)
    for twice in repeated(binding.id for binding in ui.keybindings):
        yield f"duplicate keybinding id {shown(twice)}"


def _asset(field: str, path: str) -> Iterator[str]:
    if not path.startswith("/"):
        yield f'{field} {shown(path)} must be a root-relative path (start with "/")'
    elif problem := path_problem(path[1:]):
        yield f"{field} {shown(path)}: the path below the root {problem}"


def _keybinding(binding: Keybinding) -> Iterator[str]:
    name = f"keybinding {shown(binding.id)}"
    if not _SLUG.fullmatch(binding.id):
        yield f"invalid keybinding id {shown(binding.id)}: must match ^{_SLUG.pattern}$"
    if not binding.description.strip():
        yield f"{name}: description must not be empty"
    yield from (f"{name}: default {problem}" for problem in combo_problems(binding.default))
    if binding.allow_in_editor and not works_in_editor(binding.default):
        yield f"{name}: allow_in_editor needs a modifier other than shift"

"""What a plugin offers to others: webhooks, actions, repository providers, reference sources, sign-in."""

import re
from collections.abc import Iterable, Iterator

from services.gateway.plugins.declarations import Action, Manifest, ReferenceSource, Webhook
from services.gateway.plugins.rules.terms import ID, repeated, shown

WEBHOOK_DEFAULT = 4 * 1024 * 1024
WEBHOOK_MOST = 16 * 1024 * 1024
ACTION_MOST = 1024 * 1024
"""Bytes of a body."""

WEBHOOK_ACCESS = ("public", "authenticated")
ACTION_ACCESS = ("authenticated", "admin")
ACTION_SCOPES = ("workspace", "task", "repository")
LONGEST_LABEL = 100

_REFERENCE = re.compile(r"[a-z0-9][a-z0-9._:-]{0,127}")


def webhooks(manifest: Manifest) -> Iterator[str]:
    """Requests from outside: a large one only from somebody who is known."""
    for webhook in manifest.webhooks:
        yield from (f"webhook {shown(webhook.key)}: {problem}" for problem in _webhook(webhook))
    yield from _duplicates("webhook key", (webhook.key for webhook in manifest.webhooks))


def actions(manifest: Manifest) -> Iterator[str]:
    """Requests of the plugin's own user interface."""
    for action in manifest.actions:
        yield from (f"action {shown(action.key)}: {problem}" for problem in _action(action))
    yield from _duplicates("action key", (action.key for action in manifest.actions))


def providers(manifest: Manifest) -> Iterator[str]:
    """Repository providers, and ways to sign in."""
    for provider in manifest.repository_providers:
        if not ID.fullmatch(provider):
            yield f"repository provider {shown(provider)} must match ^{ID.pattern}$"
    yield from _duplicates("repository provider", manifest.repository_providers)
    if manifest.auth_providers and not manifest.capabilities.auth:
        yield "auth_providers requires capabilities.auth"
    keys = {webhook.key for webhook in manifest.webhooks}
    for way in manifest.auth_providers:
        if not ID.fullmatch(way.id):
            yield f"auth provider {shown(way.id)} must match ^{ID.pattern}$"
        if way.initiate not in keys:
            yield f"auth provider {shown(way.id)}: initiate must be the key of a webhook, not {shown(way.initiate)}"
    yield from _duplicates("auth provider", (way.id for way in manifest.auth_providers))


def references(manifest: Manifest) -> Iterator[str]:
    """Kinds of things that prompts refer to."""
    for reference in manifest.reference_sources:
        yield from (f"reference source {shown(reference.source)}: {problem}" for problem in _reference(reference))
    yield from _duplicates("reference source", (reference.source for reference in manifest.reference_sources))
    yield from _duplicates(
        "reference provider/kind",
        (f"{reference.provider}/{reference.kind}" for reference in manifest.reference_sources),
    )


def _webhook(webhook: Webhook) -> Iterator[str]:
    if not webhook.key:
        yield "key must not be empty"
    if webhook.access not in WEBHOOK_ACCESS:
        yield f"access {shown(webhook.access)} must be public or authenticated"
    if webhook.max_body_bytes is None:
        return
    if not 1 <= webhook.max_body_bytes <= WEBHOOK_MOST:
        yield f"max_body_bytes must be between 1 and {WEBHOOK_MOST}"
    if webhook.max_body_bytes > WEBHOOK_DEFAULT and webhook.access != "authenticated":
        yield f"max_body_bytes above {WEBHOOK_DEFAULT} requires access authenticated"


def _action(action: Action) -> Iterator[str]:
    if not ID.fullmatch(action.key):
        yield f"key must match ^{ID.pattern}$"
    if action.scope not in ACTION_SCOPES:
        yield f"scope {shown(action.scope)} must be one of {', '.join(ACTION_SCOPES)}"
    if action.access not in ACTION_ACCESS:
        yield f"access {shown(action.access)} must be authenticated or admin"
    if not 1 <= action.max_body_bytes <= ACTION_MOST:
        yield f"max_body_bytes must be between 1 and {ACTION_MOST}"


def _reference(reference: ReferenceSource) -> Iterator[str]:
    ids = {"source": reference.source, "provider": reference.provider, "kind": reference.kind}
    for field, value in ids.items():
        if not _REFERENCE.fullmatch(value):
            yield f"{field} {shown(value)} must match ^{_REFERENCE.pattern}$"
    labels = {"display_name": reference.display_name, "kind_label": reference.kind_label}
    for field, value in labels.items():
        if not value.strip() or len(value) > LONGEST_LABEL:
            yield f"{field} must have 1 to {LONGEST_LABEL} characters"


def _duplicates(what: str, values: Iterable[str]) -> Iterator[str]:
    yield from (f"duplicate {what} {shown(value)}" for value in repeated(values))

"""What a manifest must keep to. One validator for whoever reads one: packing, checking and installing a package."""

from services.gateway.plugins.configuration import default_problems
from services.gateway.plugins.declarations import Manifest
from services.gateway.plugins.rules.entrances import actions, providers, references, webhooks
from services.gateway.plugins.rules.identity import floors, identity
from services.gateway.plugins.rules.interface import interface
from services.gateway.plugins.rules.runtime import runtime
from services.gateway.plugins.rules.tools import tools
from services.gateway.plugins.settings_schema import Schema, schema_problems

_RULES = (identity, runtime, floors, interface, webhooks, actions, providers, references, tools)


def violations(manifest: Manifest) -> tuple[str, ...]:
    """A sentence for everything in the manifest that breaks a rule."""
    return (
        *(problem for rule in _RULES for problem in rule(manifest)),
        *(f"config_schema {problem}" for problem in _settings(manifest.config_schema)),
    )


def _settings(schema: Schema | None) -> tuple[str, ...]:
    if schema is None:
        return ()
    return schema_problems(schema) or tuple(default_problems(schema))

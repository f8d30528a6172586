"""What a manifest must keep to. One validator for whoever reads one: packing, checking and installing a package."""

from services.gateway.plugins.configuration import schema_problems
from services.gateway.plugins.declarations import Manifest
from services.gateway.plugins.rules.entrances import actions, providers, references, webhooks
from services.gateway.plugins.rules.identity import floors, identity
from services.gateway.plugins.rules.interface import interface
from services.gateway.plugins.rules.runtime import runtime
from services.gateway.plugins.rules.tools import tools

_RULES = (identity, runtime, floors, interface, webhooks, actions, providers, references, tools)


def violations(manifest: Manifest) -> tuple[str, ...]:
    """A sentence for everything in the manifest that breaks a rule."""
    schema = () if manifest.config_schema is None else schema_problems(manifest.config_schema)
    return (
        *(problem for rule in _RULES for problem in rule(manifest)),
        *(f"config_schema {problem}" for problem in schema),
    )

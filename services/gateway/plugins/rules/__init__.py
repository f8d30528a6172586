"""What a manifest must keep to. One validator for whoever reads one: packing, checking and installing a package."""

from services.gateway.plugins.declarations import Manifest


def violations(manifest: Manifest) -> tuple[str, ...]:
    """A sentence for every rule that is broken, in the order of the manifest's fields."""
    return ()

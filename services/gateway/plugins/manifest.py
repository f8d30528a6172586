"""Reading `manifest.yaml`: from bytes to a manifest that keeps every rule, or to all that is wrong with it."""

from pydantic import ValidationError

from services.gateway.plugins.declarations import Manifest
from services.gateway.plugins.notes import notes
from services.gateway.plugins.plain_yaml import NotPlain, read_yaml
from services.gateway.plugins.rules import violations

__all__ = ["LARGEST_MANIFEST", "Manifest", "ManifestInvalid", "parse_manifest", "read_manifest"]

LARGEST_MANIFEST = 1024 * 1024
"""Bytes."""

_EXPECTED = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}
_UNUSABLE = "holds what cannot be used there"


class ManifestInvalid(Exception):
    """The manifest cannot be used. `problems`: a sentence for each reason."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def parse_manifest(data: bytes) -> Manifest:
    """The manifest. Raises `ManifestInvalid`, as `read_manifest` does."""
    manifest, _ = read_manifest(data)
    return manifest


def read_manifest(data: bytes) -> tuple[Manifest, tuple[str, ...]]:
    """The manifest, and a sentence for everything in it that nothing here reads. Raises `ManifestInvalid` with every
    problem: of a document that is not YAML the first, of one whose fields have the wrong type all of those, and else
    every broken rule. Keys that this host does not know are only noted: they may belong to a newer one.
    """
    if len(data) > LARGEST_MANIFEST:
        raise ManifestInvalid((f"the manifest is larger than {LARGEST_MANIFEST:,} bytes",))
    try:
        content = read_yaml(data)
    except NotPlain as error:
        raise ManifestInvalid((f"the manifest cannot be read: {error}",)) from None
    if not isinstance(content, dict):
        raise ManifestInvalid(("the manifest must be a mapping of keys to values",))
    try:
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        raise ManifestInvalid(_misfits(error)) from None
    if problems := violations(manifest):
        raise ManifestInvalid(problems)
    return manifest, notes(content, manifest)


def _misfits(error: ValidationError) -> tuple[str, ...]:
    return tuple(
        f"{'.'.join(map(str, each['loc']))} {_EXPECTED.get(each['type'], _UNUSABLE)}"
        for each in error.errors(include_input=False, include_context=False)
    )

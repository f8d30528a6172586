"""Whether Kubernetes knows every field of a manifest, by the schemas that a package brings along."""

from collections.abc import Iterator
from functools import cache

import kubernetes_validate
import orjson

from deploy.checks.kubernetes.manifests import Manifests, title

VERSIONS = ("1.30", "1.37")
"""The oldest version that the manifests are for, which is the first that can sleep before a container is stopped
without being asked to allow it, and the newest that the package has schemas of.
"""


def unknown_to_kubernetes(manifests: Manifests) -> Iterator[str]:
    """One sentence for each version that does not accept a document."""
    for document in manifests.documents:
        for version in VERSIONS:
            if reason := _refusal(orjson.dumps(document), version):
                yield f"{title(document)}: Kubernetes {version} {reason}"


@cache  # the package reads all schemas of a version for each document
def _refusal(document: bytes, version: str) -> str:
    """What the version does with the document, as JSON; empty where it accepts it."""
    content = orjson.loads(document)
    try:
        kubernetes_validate.validate(content, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        place = ".".join(map(str, error.path))
        return f"refuses {place or 'it'}: {error.message}"
    except kubernetes_validate.SchemaNotFoundError:
        return f"knows no {content['kind']} of {content['apiVersion']}"
    return ""

"""The manifests as they are read from a folder, and how the rules find their way in them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

BASE = Path(__file__).parents[2] / "kubernetes" / "base"

LIST = "kustomization.yaml"

Part = Mapping[str, Any]
"""A mapping of a manifest, as YAML gives it."""


class Unlisted(Exception):
    """The files of the folder and those that its kustomization lists are not the same."""


@dataclass(frozen=True)
class Manifests:
    """Every document of an installation, in the order of the files that are listed."""

    documents: tuple[Part, ...]

    def of_kind(self, kind: str) -> Iterator[Part]:
        """The documents of one kind."""
        return (document for document in self.documents if document["kind"] == kind)

    def named(self, kind: str, name: str) -> Part | None:
        """The document of this kind and name."""
        return next((document for document in self.of_kind(kind) if document["metadata"]["name"] == name), None)

    def deployments(self) -> Iterator[Part]:
        """What serves."""
        return self.of_kind("Deployment")

    def workloads(self) -> Iterator[Part]:
        """Whatever starts pods."""
        yield from self.deployments()
        yield from self.of_kind("Job")


def read(folder: Path) -> Manifests:
    """The documents that the folder's kustomization lists. Raises `Unlisted` where it leaves a file out, or names one
    that is not there.
    """
    listed = yaml.safe_load((folder / LIST).read_text(encoding="utf-8"))["resources"]
    there = {path.name for path in folder.glob("*.yaml")} - {LIST}
    if differing := there.symmetric_difference(listed):
        raise Unlisted(", ".join(sorted(differing)))
    texts = ((folder / name).read_text(encoding="utf-8") for name in listed)
    return Manifests(tuple(document for text in texts for document in yaml.safe_load_all(text)))


def title(document: Part) -> str:
    """How a complaint names a document."""
    return f"{document['kind']} {document['metadata']['name']}"


def pod(workload: Part) -> Part:
    """The specification of the pods that a workload starts."""
    return part(workload, "spec", "template", "spec")


def pod_labels(workload: Part) -> Part:
    """The labels of the pods that a workload starts."""
    return part(workload, "spec", "template", "metadata", "labels")


def container(workload: Part) -> Part:
    """The container that runs the program: every pod of ours has one."""
    found: Part = pod(workload)["containers"][0]
    return found


def part(document: Part, *path: str) -> Part:
    """The mapping at the end of a path; an empty one where there is none."""
    found: Part = document
    for name in path:
        found = found.get(name) or {}
    return found


def selects(selector: Part, labels: Part) -> bool:
    """Whether a selector that lists labels, as all of ours do, chooses these. One that lists none chooses all."""
    return set(part(selector, "matchLabels").items()) <= set(labels.items())

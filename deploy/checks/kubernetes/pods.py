"""What the pods of every workload have to say."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from cli.run import SERVICES
from deploy.checks.kubernetes.environment import settings_of
from deploy.checks.kubernetes.manifests import Manifests, Part, container, part, pod, pod_labels, selects, title

PROJECT = Path(__file__).parents[3] / "pyproject.toml"

PROBES = {"startupProbe": "/health", "livenessProbe": "/health", "readinessProbe": "/ready"}
"""The path that each probe asks. A process that waits for its database is alive, and not ready."""

EXIT_SECONDS = 10
"""What a process needs, at most, to end once it has drained."""

_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_CONTAINER = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
_GRACE_SECONDS = 30  # where a pod names none


def other_images(manifests: Manifests) -> Iterator[str]:
    """Images that are not of the version that the manifests are a part of."""
    version = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"]
    for workload in manifests.workloads():
        if (image := container(workload)["image"]) != (expected := f"kandev-conversation:{version}"):
            yield f"{title(workload)}: the image is {image}, not {expected}"


def other_commands(manifests: Manifests) -> Iterator[str]:
    """Workloads that run something else than what they are named after."""
    for workload in manifests.workloads():
        name = workload["metadata"]["name"]
        arguments = ["run", name] if name in SERVICES else [name]
        found = container(workload)
        if found.get("command") != ["kandev-conversation"] or found.get("args") != arguments:
            yield f"{title(workload)}: it does not run `kandev-conversation {' '.join(arguments)}`"


def missing_probes(manifests: Manifests) -> Iterator[str]:
    """Probes that ask another path than theirs, or another port than that of metrics."""
    for deployment in manifests.deployments():
        for probe, path in PROBES.items():
            asked = part(container(deployment), probe, "httpGet")
            if (asked.get("path"), asked.get("port")) != (path, "metrics"):
                yield f"{title(deployment)}: {probe} does not ask {path} of the port `metrics`"


def privileges(manifests: Manifests) -> Iterator[str]:
    """Pods that may do more than a service needs to."""
    for workload in manifests.workloads():
        name, spec, found = title(workload), pod(workload), container(workload)
        yield from _lacking(name, part(spec, "securityContext"), _POD)
        yield from _lacking(name, part(found, "securityContext"), _CONTAINER)
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{name}: it is given a token of the cluster"
        if spec.get("enableServiceLinks") is not False:
            yield f"{name}: variables named after Services could be taken for settings"


def unbounded_resources(manifests: Manifests) -> Iterator[str]:
    """Containers that do not say what they need, or may take all memory of a node."""
    for workload in manifests.workloads():
        resources = part(container(workload), "resources")
        if not {"cpu", "memory"} <= set(part(resources, "requests")) or "memory" not in part(resources, "limits"):
            yield f"{title(workload)}: it lacks a request for cpu or memory, or a limit of memory"


def unwritable_folders(manifests: Manifests) -> Iterator[str]:
    """Folders that a program writes to, and that lie on its read-only root."""
    for workload in manifests.workloads():
        empty = {volume["name"] for volume in pod(workload).get("volumes", ()) if "emptyDir" in volume}
        mounts = container(workload).get("volumeMounts", ())
        writable = [Path(mount["mountPath"]) for mount in mounts if mount["name"] in empty]
        cache = settings_of(workload, manifests).cache_dir
        for folder in (Path("/tmp"), *([cache] if cache is not None else [])):  # noqa: S108 - the container's own
            if not any(folder.is_relative_to(place) for place in writable):
                yield f"{title(workload)}: {folder} cannot be written to"


def other_ports(manifests: Manifests) -> Iterator[str]:
    """Container ports that are not those of the settings."""
    for deployment in manifests.deployments():
        settings = settings_of(deployment, manifests)
        expected = {"metrics": settings.metrics_port}
        if deployment["metadata"]["name"] == "gateway":
            expected["http"] = settings.port
            if settings.rpc_port:
                expected["rpc"] = settings.rpc_port
        if (found := ports_of(deployment)) != expected:
            yield f"{title(deployment)}: its ports are {found}, those of its settings {expected}"


def short_graces(manifests: Manifests) -> Iterator[str]:
    """Pods that are killed before they have drained."""
    for deployment in manifests.deployments():
        pause = part(container(deployment), "lifecycle", "preStop", "sleep").get("seconds", 0)
        settings = settings_of(deployment, manifests)
        needed = pause + settings.drain_pause + settings.drain_seconds + EXIT_SECONDS
        if (grace := pod(deployment).get("terminationGracePeriodSeconds", _GRACE_SECONDS)) < needed:
            yield f"{title(deployment)}: {grace} s of grace are less than the {needed:g} s that its end may take"


def crowded_nodes(manifests: Manifests) -> Iterator[str]:
    """Deployments whose pods are not told to keep apart."""
    for deployment in manifests.deployments():
        spread = {
            constraint["topologyKey"]
            for constraint in pod(deployment).get("topologySpreadConstraints", ())
            if selects(constraint["labelSelector"], pod_labels(deployment))
        }
        if not {"kubernetes.io/hostname", "topology.kubernetes.io/zone"} <= spread:
            yield f"{title(deployment)}: its pods are not spread over nodes and zones"


def ports_of(workload: Part) -> dict[str, int]:
    """The container's ports by name."""
    return {port["name"]: port["containerPort"] for port in container(workload).get("ports", ())}


def _lacking(name: str, found: Part, expected: Part) -> Iterator[str]:
    yield from (
        f"{name}: securityContext.{key} is not {value}" for key, value in expected.items() if found.get(key) != value
    )

"""The settings that a workload's container starts with."""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_settings import PydanticBaseSettingsSource

from cli.configuration import complaints_of
from cli.settings import unknown_variables
from deploy.checks.kubernetes.manifests import Manifests, Part, container, part, title
from shared.origins import host_names, host_refusal, is_loopback
from shared.secret_files import file_variables_of, variables_of
from shared.settings import Settings

POD_ADDRESS = "10.1.2.3"
"""Stands for the address that each pod is given."""

# What only the cluster knows is stood for by something of its form.
_FIELDS = {"status.podIP": POD_ADDRESS}
_SECRETS = {"database-url": "postgresql://database/kandev", "redis-url": "redis://redis:6379/0"}

_REFERENCE = re.compile(r"\$\((\w+)\)")


class Unresolved(Exception):
    """A variable takes its value from what is not there."""


class _Given(Settings):
    """Settings of what is given alone: whoever runs the check has an environment, too."""

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        return (sources["init_settings"],)


def environment_of(workload: Part, manifests: Manifests) -> dict[str, str]:
    """The variables of the workload's container, as Kubernetes puts them together: those listed go before those of
    whole ConfigMaps, and may refer to others that are listed above them. Raises `Unresolved`.
    """
    found = container(workload)
    whole: dict[str, str] = {}
    for source in found.get("envFrom", ()):
        whole |= _entries(manifests, source["configMapRef"]["name"])
    listed: dict[str, str] = {}
    for variable in found.get("env", ()):
        listed[variable["name"]] = _value(variable, listed, manifests)
    return whole | listed


def settings_of(workload: Part, manifests: Manifests) -> Settings:
    """The settings that the workload's program reads. Raises `Unresolved`, and pydantic's ValidationError."""
    environment = environment_of(workload, manifests)
    given = {
        name: environment[variable]
        for name, field in Settings.model_fields.items()
        for variable in variables_of(name, field)
        if environment.get(variable)
    }
    return _Given(**given)  # type: ignore[arg-type] # text, as from any environment: pydantic reads it


def unusable_settings(manifests: Manifests) -> Iterator[str]:
    """Variables that no setting reads, and values that their setting refuses."""
    for workload in manifests.workloads():
        try:
            unknown = unknown_variables(environment_of(workload, manifests))
            yield from (f"{title(workload)}: {one.variable} is no setting" for one in unknown)
            settings_of(workload, manifests)
        except Unresolved as unresolved:
            yield f"{title(workload)}: {unresolved}"
        except ValidationError as error:
            yield from (f"{title(workload)}: {name}: {reason}" for name, reason in complaints_of(error).items())


def literal_secrets(manifests: Manifests) -> Iterator[str]:
    """Secrets that stand in the manifests, where they belong into a Secret that the operator makes."""
    yield from (f"{title(secret)}: secrets are the operator's" for secret in manifests.of_kind("Secret"))
    secrets = {
        variable
        for name, field in Settings.model_fields.items()
        if file_variables_of(name, field)  # which secrets have, and nothing else
        for variable in variables_of(name, field)
    }
    for settings in manifests.of_kind("ConfigMap"):
        yield from (f"{title(settings)}: {name} is a secret" for name in secrets.intersection(settings["data"]))
    for workload in manifests.workloads():
        for variable in container(workload).get("env", ()):
            if variable["name"] in secrets and not part(variable, "valueFrom", "secretKeyRef"):
                yield f"{title(workload)}: {variable['name']} is a secret, and not taken from a Secret"


def unanswered_probes(manifests: Manifests) -> Iterator[str]:
    """Deployments whose metrics port would not answer whoever names a pod by its address, as probes do."""
    for deployment in manifests.deployments():
        settings = settings_of(deployment, manifests)
        if is_loopback(settings.metrics_host):
            yield f"{title(deployment)}: the metrics port listens on loopback, where no probe comes from"
        allowed = host_names(settings.allowed_hosts)
        if host_refusal(f"{POD_ADDRESS}:{settings.metrics_port}", allowed) is not None:
            yield f"{title(deployment)}: KANDEV_ALLOWED_HOSTS lacks the pod's address, by which probes name it"


def _value(variable: Part, above: Part, manifests: Manifests) -> str:
    source = part(variable, "valueFrom")
    if field := part(source, "fieldRef"):
        return _FIELDS[field["fieldPath"]]
    if secret := part(source, "secretKeyRef"):
        return _SECRETS[secret["key"]]
    if reference := part(source, "configMapKeyRef"):
        entries = _entries(manifests, reference["name"])
        if reference["key"] not in entries:
            raise Unresolved(f"ConfigMap {reference['name']} has no {reference['key']}")
        return entries[reference["key"]]

    def referred(match: re.Match[str]) -> str:
        if match[1] not in above:
            raise Unresolved(f"{variable['name']} refers to {match[1]}, which is not listed above it")
        return str(above[match[1]])

    return _REFERENCE.sub(referred, variable["value"])


def _entries(manifests: Manifests, name: str) -> dict[str, str]:
    found = manifests.named("ConfigMap", name)
    if found is None:
        raise Unresolved(f"there is no ConfigMap {name}")
    return dict(found["data"])

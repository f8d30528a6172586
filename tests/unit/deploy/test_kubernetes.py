"""Which manifests of Kubernetes pass: those of this project do, and none of the changes below."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.checks.kubernetes.manifests import BASE, LIST, Manifests, Unlisted, read
from deploy.checks.kubernetes.rules import complaints
from deploy.checks.kubernetes.schemas import VERSIONS


class Changing:
    """A copy of the manifests that may be changed."""

    def __init__(self) -> None:
        # As JSON, since labels that YAML repeats by name are one object.
        self.documents: list[dict[str, Any]] = json.loads(json.dumps(read(BASE).documents))

    def one(self, kind: str, name: str = "gateway") -> dict[str, Any]:
        """A document."""
        return next(each for each in self.documents if (each["kind"], each["metadata"]["name"]) == (kind, name))

    def spec(self, kind: str, name: str = "gateway") -> dict[str, Any]:
        """The specification of a document."""
        found: dict[str, Any] = self.one(kind, name)["spec"]
        return found

    def pod(self, name: str = "gateway", kind: str = "Deployment") -> dict[str, Any]:
        """The specification of a workload's pods."""
        found: dict[str, Any] = self.spec(kind, name)["template"]["spec"]
        return found

    def container(self, name: str = "gateway", kind: str = "Deployment") -> dict[str, Any]:
        """The container of a workload's pods."""
        found: dict[str, Any] = self.pod(name, kind)["containers"][0]
        return found

    def variable(self, variable: str, name: str = "gateway") -> dict[str, Any]:
        """A variable of a deployment's container."""
        found: dict[str, Any] = next(each for each in self.container(name)["env"] if each["name"] == variable)
        return found

    @property
    def settings(self) -> dict[str, str]:
        """The settings of all services."""
        found: dict[str, str] = self.one("ConfigMap", "settings")["data"]
        return found

    def remove(self, kind: str, name: str) -> None:
        """Takes a document away."""
        self.documents.remove(self.one(kind, name))

    def complaints(self) -> list[str]:
        """What is wrong now."""
        return complaints(Manifests(tuple(self.documents)))


Change = Callable[[Changing], object]

CHANGES: dict[str, tuple[Change, str]] = {
    "a field that Kubernetes does not know": (
        lambda c: c.pod().update(terminationGraceSeconds=60),
        f"Deployment gateway: Kubernetes {VERSIONS[0]} refuses spec.template.spec",
    ),
    "a value of another type": (
        lambda c: c.spec("Service")["ports"][0].update(port="80"),
        f"Service gateway: Kubernetes {VERSIONS[1]} refuses spec.ports.0.port",
    ),
    "a kind that one version lacks": (
        lambda c: c.one("PodDisruptionBudget").update(apiVersion="policy/v1beta1"),
        "knows no PodDisruptionBudget of policy/v1beta1",
    ),
    "a secret among the manifests": (
        lambda c: c.documents.append(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "reader"}, "stringData": {"redis-url": "x"}}
        ),
        "Secret reader: secrets are the operator's",
    ),
    "a secret among the settings": (
        lambda c: c.settings.update(KANDEV_REPLICA_URL="postgresql://me:secret@replica/kandev"),
        "ConfigMap settings: KANDEV_REPLICA_URL is a secret",
    ),
    "a secret in the environment": (
        lambda c: c.container()["env"].append({"name": "REDIS_URL", "value": "redis://:secret@redis/0"}),
        "Deployment gateway: REDIS_URL is a secret",
    ),
    "a setting that nobody reads": (
        lambda c: c.settings.update(KANDEV_METRIC_PORT="9100"),
        "Deployment reader: KANDEV_METRIC_PORT is no setting",
    ),
    "a setting of one deployment that nobody reads": (
        lambda c: c.variable("KANDEV_CACHE_DIR").update(name="KANDEV_CACHE"),
        "Deployment gateway: KANDEV_CACHE is no setting",
    ),
    "a value that the setting refuses": (
        lambda c: c.settings.update(KANDEV_PORT="eighty"),
        "Deployment gateway: KANDEV_PORT: Input should be a valid integer",
    ),
    "a gateway that is open to all without accounts": (
        lambda c: (c.settings.update(KANDEV_AUTH="disabled"), c.variable("KANDEV_ALLOWED_HOSTS").update(value="")),
        "Deployment gateway: KANDEV_HOST: other machines would reach this address",
    ),
    "a ConfigMap that is not there": (
        lambda c: c.remove("ConfigMap", "settings"),
        "Deployment revision: there is no ConfigMap settings",
    ),
    "an entry of a ConfigMap that is not there": (
        lambda c: c.one("ConfigMap", "public").update(data={}),
        "Deployment gateway: ConfigMap public has no hosts",
    ),
    "a variable that is referred to above its own place": (
        lambda c: c.container()["env"].reverse(),
        "Deployment gateway: KANDEV_ALLOWED_HOSTS refers to POD_IP, which is not listed above it",
    ),
    "a metrics port on loopback": (
        lambda c: c.settings.update(KANDEV_METRICS_HOST="127.0.0.1"),
        "Deployment reader: the metrics port listens on loopback",
    ),
    "probes that are refused": (
        lambda c: c.variable("KANDEV_ALLOWED_HOSTS").update(value="$(PUBLIC_HOSTS)"),
        "Deployment gateway: KANDEV_ALLOWED_HOSTS lacks the pod's address",
    ),
    "an image of no version": (
        lambda c: c.container("reader").update(image="kandev-conversation:latest"),
        "Deployment reader: the image is kandev-conversation:latest",
    ),
    "another image of the migration": (
        lambda c: c.container("migrate", "Job").update(image="kandev-conversation:0.0.1"),
        "Job migrate: the image is kandev-conversation:0.0.1",
    ),
    "a reader that runs a gateway": (
        lambda c: c.container("reader").update(args=["run", "gateway"]),
        "Deployment reader: it does not run `kandev-conversation run reader`",
    ),
    "no readiness probe": (
        lambda c: c.container().pop("readinessProbe"),
        "Deployment gateway: readinessProbe does not ask /ready",
    ),
    "no liveness probe": (
        lambda c: c.container("revision").pop("livenessProbe"),
        "Deployment revision: livenessProbe does not ask /health",
    ),
    "a process that is killed while its database is away": (
        lambda c: c.container()["livenessProbe"]["httpGet"].update(path="/ready"),
        "Deployment gateway: livenessProbe does not ask /health",
    ),
    "a probe of another port": (
        lambda c: c.container()["readinessProbe"]["httpGet"].update(port="http"),
        "Deployment gateway: readinessProbe does not ask /ready of the port `metrics`",
    ),
    "root": (
        lambda c: c.pod("migrate", "Job")["securityContext"].pop("runAsNonRoot"),
        "Job migrate: securityContext.runAsNonRoot",
    ),
    "any system call": (
        lambda c: c.pod()["securityContext"].pop("seccompProfile"),
        "Deployment gateway: securityContext.seccompProfile",
    ),
    "a root that can be written to": (
        lambda c: c.container()["securityContext"].update(readOnlyRootFilesystem=False),
        "Deployment gateway: securityContext.readOnlyRootFilesystem",
    ),
    "capabilities": (
        lambda c: c.container("reader").pop("securityContext"),
        "Deployment reader: securityContext.capabilities",
    ),
    "a token of the cluster": (
        lambda c: c.pod("revision").pop("automountServiceAccountToken"),
        "Deployment revision: it is given a token of the cluster",
    ),
    "variables named after Services": (
        lambda c: c.pod().pop("enableServiceLinks"),
        "Deployment gateway: variables named after Services",
    ),
    "no request": (
        lambda c: c.container("reader")["resources"].pop("requests"),
        "Deployment reader: it lacks a request",
    ),
    "no limit of memory": (
        lambda c: c.container("reader")["resources"].pop("limits"),
        "Deployment reader: it lacks a request for cpu or memory, or a limit",
    ),
    "no temporary folder": (
        lambda c: c.container("revision").pop("volumeMounts"),
        "Deployment revision: /tmp cannot be written to",
    ),
    "a cache on the root": (
        lambda c: c.variable("KANDEV_CACHE_DIR").update(value="/srv/plugins"),
        "Deployment gateway: /srv/plugins cannot be written to",
    ),
    "another port than the setting's": (
        lambda c: c.settings.update(KANDEV_METRICS_PORT="9200"),
        "Deployment reader: its ports are {'metrics': 9100}, those of its settings {'metrics': 9200}",
    ),
    "another public port than the setting's": (
        lambda c: c.settings.pop("KANDEV_PORT") and c.container()["ports"][0].update(containerPort=8000),
        "Deployment gateway: its ports are {'http': 8000, 'metrics': 9100}",
    ),
    "Host RPC that no port leads to": (
        lambda c: c.settings.update(KANDEV_RPC_PORT="8081"),
        "Deployment gateway: its ports are {'http': 8080, 'metrics': 9100}, those of its settings {'metrics': 9100",
    ),
    "a drain longer than the grace": (
        lambda c: c.settings.update(KANDEV_DRAIN_SECONDS="58"),
        "Deployment reader: 60 s of grace are less than the 68 s",
    ),
    "a pause of the gateway's own that the grace does not hold": (
        lambda c: c.settings.update(KANDEV_DRAIN_PAUSE="20"),
        "Deployment gateway: 60 s of grace are less than the 65 s",
    ),
    "a pause that the grace does not hold": (
        lambda c: c.container()["lifecycle"]["preStop"]["sleep"].update(seconds=25),
        "Deployment gateway: 60 s of grace are less than the 65 s",
    ),
    "the usual grace": (
        lambda c: c.pod("revision").pop("terminationGracePeriodSeconds"),
        "Deployment revision: 30 s of grace are less than",
    ),
    "pods that may share a node": (
        lambda c: c.pod("revision")["topologySpreadConstraints"].pop(0),
        "Deployment revision: its pods are not spread",
    ),
    "a spread of other pods": (
        lambda c: [
            each["labelSelector"]["matchLabels"].update({"app.kubernetes.io/component": "reader"})
            for each in c.pod()["topologySpreadConstraints"]
        ],
        "Deployment gateway: its pods are not spread",
    ),
    "a deployment that chooses no pod": (
        lambda c: c.spec("Deployment", "reader")["selector"].update(matchLabels={"app": "reader"}),
        "Deployment reader: its selector does not choose its own pods",
    ),
    "a deployment that chooses the pods of others": (
        lambda c: c.spec("Deployment", "reader")["selector"]["matchLabels"].pop("app.kubernetes.io/component"),
        "Deployment reader: its selector does not choose its own pods and those alone",
    ),
    "a policy for nobody": (
        lambda c: c.spec("NetworkPolicy", "proxy-to-gateway").update(podSelector={"matchLabels": {"app": "gateway"}}),
        "NetworkPolicy proxy-to-gateway: no pod has the labels",
    ),
    "a budget for nobody": (
        lambda c: c.spec("PodDisruptionBudget", "reader").update(selector={"matchLabels": {"app": "reader"}}),
        "PodDisruptionBudget reader: no pod has the labels",
    ),
    "a service that leads nowhere": (
        lambda c: c.spec("Service").update(selector={"app": "gateway"}),
        "Service gateway: no pod has the labels",
    ),
    "a service that leads to no port": (
        lambda c: c.spec("Service")["ports"][0].update(targetPort="https"),
        "Service gateway: its pods have no port https",
    ),
    "a service that holds clients to one gateway": (
        lambda c: c.spec("Service").update(sessionAffinity="ClientIP"),
        "Service gateway: clients need no particular gateway",
    ),
    "an update that takes a pod away first": (
        lambda c: c.spec("Deployment", "revision").pop("strategy"),
        "Deployment revision: an update takes a pod away",
    ),
    "a revision service without a standby": (
        lambda c: c.spec("Deployment", "revision").update(replicas=1),
        "Deployment revision: it may run a single pod",
    ),
    "a reader whose number is not stated": (
        lambda c: c.spec("Deployment", "reader").pop("replicas"),
        "Deployment reader: it may run a single pod",
    ),
    "an autoscaler that leaves one gateway": (
        lambda c: c.spec("HorizontalPodAutoscaler").pop("minReplicas"),
        "Deployment gateway: it may run a single pod",
    ),
    "replicas beside an autoscaler": (
        lambda c: c.spec("Deployment").update(replicas=3),
        "Deployment gateway: its replicas undo what its autoscaler does",
    ),
    "an autoscaler of nothing": (
        lambda c: c.spec("HorizontalPodAutoscaler")["scaleTargetRef"].update(name="gateways"),
        "HorizontalPodAutoscaler gateway: there is no such deployment",
    ),
    "an autoscaler that follows another metric": (
        lambda c: c.spec("HorizontalPodAutoscaler")["metrics"][0]["pods"]["metric"].update(name="connections"),
        "HorizontalPodAutoscaler gateway: it does not follow kandev_gateway_connections",
    ),
    "no budget": (
        lambda c: c.remove("PodDisruptionBudget", "reader"),
        "Deployment reader: no disruption budget",
    ),
    "a budget that lets nothing go": (
        lambda c: c.spec("PodDisruptionBudget", "revision").update(maxUnavailable=0),
        "Deployment revision: no disruption budget",
    ),
    "a network that is open": (
        lambda c: c.remove("NetworkPolicy", "nothing-else"),
        "no NetworkPolicy denies every pod",
    ),
    "a network of which one direction is open": (
        lambda c: c.spec("NetworkPolicy", "nothing-else").update(policyTypes=["Ingress"]),
        "no NetworkPolicy denies every pod",
    ),
    "a policy that lets everybody in": (
        lambda c: c.spec("NetworkPolicy", "data-from-services")["ingress"][0].pop("from"),
        "NetworkPolicy data-from-services: it lets everybody in",
    ),
    "a policy that lets every namespace in": (
        lambda c: c.spec("NetworkPolicy", "proxy-to-gateway")["ingress"][0].update(
            {"from": [{"namespaceSelector": {}}]}
        ),
        "NetworkPolicy proxy-to-gateway: it lets everybody in",
    ),
}


def test_the_manifests_of_this_project_pass() -> None:
    assert Changing().complaints() == []


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_breaks_a_rule_is_told(name: str) -> None:
    change, expected = CHANGES[name]
    changing = Changing()
    change(changing)
    found = changing.complaints()
    assert any(expected in complaint for complaint in found), found


def test_what_is_set_where_the_check_runs_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KANDEV_METRICS_HOST", "127.0.0.1")
    monkeypatch.setenv("KANDEV_RPC_TLS_KEY", "/half/of/what/was/meant")
    assert Changing().complaints() == []


@pytest.mark.parametrize(("add", "remove"), [("more.yaml", None), (None, "reader.yaml")])
def test_files_and_their_list_are_the_same(tmp_path: Path, add: str | None, remove: str | None) -> None:
    folder = Path(shutil.copytree(BASE, tmp_path / "base"))
    assert read(folder) == read(BASE)
    if add is not None:
        shutil.copy(folder / LIST, folder / add)
    if remove is not None:
        (folder / remove).unlink()
    with pytest.raises(Unlisted, match=add or remove):
        read(folder)

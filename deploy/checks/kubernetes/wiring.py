"""How the documents of an installation refer to one another."""

from collections.abc import Iterator

from deploy.checks.kubernetes.manifests import Manifests, Part, part, pod_labels, selects, title
from deploy.checks.kubernetes.pods import ports_of
from services.gateway.metrics import CONNECTIONS

DATA = {"kandev-conversation/data": "true"}
"""What the operator's own PostgreSQL and Redis are labelled with, where they run beside the services."""

LEAST_REPLICAS = 2


def loose_selectors(manifests: Manifests) -> Iterator[str]:
    """Selectors that choose nothing; of Deployments, that do not choose their own pods and those alone."""
    everybody = [pod_labels(workload) for workload in manifests.workloads()]
    for deployment in manifests.deployments():
        chosen = [labels for labels in everybody if selects(deployment["spec"]["selector"], labels)]
        if chosen != [pod_labels(deployment)]:
            yield f"{title(deployment)}: its selector does not choose its own pods and those alone"
    for kind, key in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        for document in manifests.of_kind(kind):
            if not any(selects(document["spec"][key], labels) for labels in (*everybody, DATA)):
                yield f"{title(document)}: no pod has the labels that it selects"


def lost_services(manifests: Manifests) -> Iterator[str]:
    """Services that lead to no pod, or to one without the port; and those that keep a client with one pod."""
    for service in manifests.of_kind("Service"):
        spec = service["spec"]
        chosen = [
            workload
            for workload in manifests.workloads()
            if selects({"matchLabels": spec["selector"]}, pod_labels(workload))
        ]
        if not chosen:
            yield f"{title(service)}: no pod has the labels that it selects"
        for port in spec["ports"]:
            if any(port["targetPort"] not in ports_of(workload) for workload in chosen):
                yield f"{title(service)}: its pods have no port {port['targetPort']}"
        if spec.get("sessionAffinity", "None") != "None":
            yield f"{title(service)}: clients need no particular gateway, and one that is gone would keep them"


def interrupted_updates(manifests: Manifests) -> Iterator[str]:
    """Deployments of which an update takes a pod away before another one is ready."""
    for deployment in manifests.deployments():
        if part(deployment, "spec", "strategy", "rollingUpdate").get("maxUnavailable") != 0:
            yield f"{title(deployment)}: an update takes a pod away before another one is ready"


def lone_pods(manifests: Manifests) -> Iterator[str]:
    """Deployments of fewer pods than bear the loss of one, or whose number two documents dispute."""
    for deployment in manifests.deployments():
        stated = deployment["spec"].get("replicas")
        scaler = next(
            (found for found in manifests.of_kind("HorizontalPodAutoscaler") if _scales(found, deployment)), None
        )
        if scaler is not None and stated is not None:
            yield f"{title(deployment)}: its replicas undo what its autoscaler does"
        least = stated if scaler is None else scaler["spec"].get("minReplicas")
        if (least or 1) < LEAST_REPLICAS:
            yield f"{title(deployment)}: it may run a single pod"


def stray_autoscalers(manifests: Manifests) -> Iterator[str]:
    """Autoscalers of nothing, and those that follow another metric than a gateway's connections."""
    expected = CONNECTIONS.declared.name
    for scaler in manifests.of_kind("HorizontalPodAutoscaler"):
        if not any(_scales(scaler, deployment) for deployment in manifests.deployments()):
            yield f"{title(scaler)}: there is no such deployment"
        followed = [part(metric, "pods", "metric").get("name") for metric in scaler["spec"].get("metrics", ())]
        if followed != [expected]:
            yield f"{title(scaler)}: it does not follow {expected}"


def missing_budgets(manifests: Manifests) -> Iterator[str]:
    """Deployments of which a node's maintenance may take more than one pod at a time, or none."""
    for deployment in manifests.deployments():
        found = [
            budget["spec"].get("maxUnavailable")
            for budget in manifests.of_kind("PodDisruptionBudget")
            if selects(budget["spec"]["selector"], pod_labels(deployment))
        ]
        if found != [1]:
            yield f"{title(deployment)}: no disruption budget lets exactly one of its pods go at a time"


def open_network(manifests: Manifests) -> Iterator[str]:
    """An installation whose pods reach, or are reached by, whatever no policy names; and policies that name nobody."""
    policies = list(manifests.of_kind("NetworkPolicy"))
    if not any(_denies(policy["spec"]) for policy in policies):
        yield "no NetworkPolicy denies every pod what the others do not allow"
    for policy in policies:
        rules = policy["spec"].get("ingress", ())
        if any(not rule.get("from") or not all(map(_is_named, rule["from"])) for rule in rules):
            yield f"{title(policy)}: it lets everybody in"


def _is_named(peer: Part) -> bool:
    return "ipBlock" in peer or any(part(selector, "matchLabels") for selector in peer.values())


def _denies(spec: Part) -> bool:
    rules = spec.get("ingress") or spec.get("egress")
    return not spec["podSelector"] and set(spec["policyTypes"]) == {"Ingress", "Egress"} and not rules


def _scales(scaler: Part, deployment: Part) -> bool:
    target = scaler["spec"]["scaleTargetRef"]
    return bool((target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"]))

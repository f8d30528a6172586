"""Every rule that the manifests keep."""

from collections.abc import Callable, Iterator

from deploy.checks.kubernetes import environment, pods, wiring
from deploy.checks.kubernetes.manifests import Manifests
from deploy.checks.kubernetes.schemas import unknown_to_kubernetes

Rule = Callable[[Manifests], Iterator[str]]
"""One sentence for each place where the manifests break it."""

# Each step reads what the earlier ones have found to be there.
STEPS: tuple[tuple[Rule, ...], ...] = (
    (unknown_to_kubernetes,),
    (environment.literal_secrets, environment.unusable_settings),
    (
        environment.unanswered_probes,
        pods.other_images,
        pods.other_commands,
        pods.missing_probes,
        pods.privileges,
        pods.unbounded_resources,
        pods.unwritable_folders,
        pods.other_ports,
        pods.short_graces,
        pods.crowded_nodes,
        wiring.loose_selectors,
        wiring.lost_services,
        wiring.interrupted_updates,
        wiring.lone_pods,
        wiring.stray_autoscalers,
        wiring.missing_budgets,
        wiring.open_network,
    ),
)


def complaints(manifests: Manifests) -> list[str]:
    """What is wrong, of the first step that finds anything."""
    for rules in STEPS:
        if found := [complaint for rule in rules for complaint in rule(manifests)]:
            return found
    return []

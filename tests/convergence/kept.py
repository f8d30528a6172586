"""Plans that once failed, each with what it had found."""

from tests.convergence.plans import Plan

KEPT: dict[str, Plan] = {}

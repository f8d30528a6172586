"""What a run does, drawn by a seed: rounds of writers at work, each with its weather and at most one fault."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.convergence.faults import FAULTS
from tests.convergence.network import CALM, Weather
from tests.convergence.statements import GENTLE, HARSH, Step

WEATHERS = (
    CALM,
    Weather(lose=0.05, repeat=0.1, reorder=0.1, delay=0.05),
    Weather(lose=0.3),
    Weather(repeat=0.5, reorder=0.3),
    Weather(delay=0.4, cut=0.02),
)

QUIET = tuple(name for name in GENTLE if name != "too many rows")
"""Without what is told by a reset in any case."""

MOST_STEPS = 24
"""Of one writer in one round."""


@dataclass(frozen=True, slots=True)
class Round:
    """`writers`: the steps of each connection. `fault` strikes once `struck_after` steps were taken; '' for none."""

    writers: tuple[tuple[Step, ...], ...]
    weather: Weather = CALM
    fault: str = ""
    struck_after: int = 0

    @property
    def undisturbed(self) -> bool:
        """Whether nothing is lost on the way, so that nothing may have to be repaired."""
        names = {step.name for steps in self.writers for step in steps}
        return self.weather == CALM and not self.fault and names.isdisjoint(HARSH)


@dataclass(frozen=True, slots=True)
class Plan:
    """`seed`: of the network. At the end of each round every scope must equal the source."""

    seed: int
    rounds: tuple[Round, ...]


def quiet_plan(seed: int) -> Plan:
    """Every kind of statement, and nothing that goes wrong."""
    chance = random.Random(f"quiet {seed}")
    return Plan(seed, tuple(Round(_writers(chance, QUIET)) for _ in range(2)))


def rough_plan(seed: int, fault: str) -> Plan:
    """A round with this fault, in any weather, and sometimes one without after it."""
    chance = random.Random(f"{fault} {seed}")
    rounds = [_rough_round(chance, fault)]
    if chance.random() < 0.3:
        rounds.append(_rough_round(chance, ""))
    return Plan(seed, tuple(rounds))


def plans(seed: int) -> Iterator[Plan]:
    """Plans without end: each fault in turn."""
    while True:
        for fault in ("", *FAULTS):
            yield rough_plan(seed, fault)
        yield quiet_plan(seed)
        seed += 1


def _rough_round(chance: random.Random, fault: str) -> Round:
    names = chance.choice((GENTLE, GENTLE * 2 + HARSH))
    return Round(_writers(chance, names), chance.choice(WEATHERS), fault, chance.randrange(20))


def _writers(chance: random.Random, names: tuple[str, ...]) -> tuple[tuple[Step, ...], ...]:
    return tuple(
        tuple(Step(chance.choice(names), chance.randrange(10**6)) for _ in range(chance.randint(8, MOST_STEPS)))
        for _ in range(chance.randint(2, 4))
    )


def smaller(plan: Plan) -> Iterator[Plan]:
    """The plan with something left out: a round, calm weather, a writer, or a half of its steps."""
    for place, each in enumerate(plan.rounds):
        without = plan.rounds[:place] + plan.rounds[place + 1 :]
        if without:
            yield replace(plan, rounds=without)
        for changed in _smaller_rounds(each):
            yield replace(plan, rounds=(*plan.rounds[:place], changed, *plan.rounds[place + 1 :]))


def _smaller_rounds(each: Round) -> Iterator[Round]:
    if each.weather != CALM:
        yield replace(each, weather=CALM)
    for place, steps in enumerate(each.writers):
        before, after = each.writers[:place], each.writers[place + 1 :]
        if before or after:
            yield replace(each, writers=(*before, *after))
        half = len(steps) // 2
        for kept in (steps[:half], steps[half:]) if half else ():
            yield replace(each, writers=(*before, kept, *after))

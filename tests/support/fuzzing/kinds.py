"""Random questions to the accountant, of every kind that it knows, each a pure function of a seed.

A question has a guarantee, and others that must not cost less or more: with more noise, less temperature, a
step, a trial or a member of a group more. Both hold of every proof, since what was one remains one.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pabi
from pabi import Guarantee
from support.fuzzing import descriptions
from support.fuzzing.descriptions import amount

Ask = Callable[[float], Guarantee]


@dataclass(frozen=True)
class Question:
    """What is asked, and neighbours: (what it is, whether it must cost no more, the neighbour).

    `certified`: whether its guarantee has a certificate, whatever proof is best. `about`: the description
    and the position, where it is a question about one, which several analyses answer.
    """

    kind: str
    ask: Ask
    neighbours: tuple[tuple[str, bool, Ask], ...] = ()
    certified: bool = True
    about: tuple[Any, int | None] | None = None


def question(seed: int) -> Question:
    """The question of this seed. Raises InvalidInput where it is none."""
    rng = random.Random(seed)
    kind = rng.choices(tuple(KINDS), [weight for weight, _ in KINDS.values()])[0]
    return KINDS[kind][1](seed, rng)


# Runs.


def _run(seed: int, rng: random.Random) -> Question:
    run = descriptions.described(seed)
    noisy, long = descriptions.more_noise(run), descriptions.longer(run)
    more = () if long is None else (("more epochs", False, long.guarantee),)
    both = (("more noise", True, noisy.guarantee), *more)
    return Question("run", run.guarantee, both[seed % len(both) :][:1], about=(run, None))


def _position(seed: int, rng: random.Random) -> Question:
    """Of one batch alone: no more than that of the worst."""
    run = replace(descriptions.described(seed), batches=pabi.Cyclic(rng.randint(1, 4)))
    place = rng.randrange(run.steps_per_epoch)
    whole = ("the worst batch", False, run.guarantee)
    return Question(
        "run of a position", lambda delta: run.guarantee(delta, place), (whole,), about=(run, place)
    )


def _forgetting(seed: int, rng: random.Random) -> Question:
    run = descriptions.described(seed)
    steps, records = rng.randint(0, 12), rng.randint(1, 3)
    published = rng.random() < 0.2
    requests = [(rng.randint(1, 3), rng.randint(1, 2)) for _ in range(rng.randint(1, 3))]

    def ask(steps: int) -> Ask:
        return lambda delta: run.unlearning(
            delta, steps=steps, records=records, published=published
        )

    if rng.random() < 0.3:
        return Question(
            "forgetting",
            lambda delta: run.unlearning(delta, requests=requests, published=published),
        )
    varies = descriptions.longer(run) is None
    longer = () if varies else (("more steps", True, ask(steps + run.steps_per_epoch)),)
    about = pabi.Unlearning(run, [(steps, records)], published=published)
    return Question("forgetting", ask(steps), longer, about=(about, None))


# Samplers.


def _adjacency(rng: random.Random) -> Any:
    return rng.choice(("replace_one", "zero_out"))


def _sampled(rng: random.Random) -> dict[str, Any]:
    """What descriptions of samplers share."""
    return {
        "loss": descriptions.a_loss(rng),
        "n": rng.randint(2, 50),
        "gradient_gap": rng.choice((None, amount(rng, 0.01, 1.0))),
        "adjacency": _adjacency(rng),
    }


def _chain(seed: int, rng: random.Random) -> Question:
    shared = _sampled(rng)
    chain = pabi.LangevinChain(
        **shared,
        inverse_temperature=amount(rng, 0.1, 30.0),
        step_size=amount(rng, 1e-3, 0.5),
        steps=rng.randint(1, 30),
        prox=descriptions.a_prox(rng),
        diameter=rng.choice((None, amount(rng, 0.1, 10.0))),
        chains=rng.choice((1, 1, 1, 3)),
        release=rng.choice(("last", "last", "path")),
        batches=descriptions.batches_of(rng, shared["n"])(),
    )
    # An epoch, at the end of which the same batches are left: other steps may only damp what is there.
    longer = replace(chain, steps=chain.steps + chain.batches.per_epoch(chain.n))
    more: tuple[tuple[str, bool, Ask], ...] = (("more steps", False, longer.guarantee),)
    if chain.gradient_gap is not None:
        nearer = replace(chain, gradient_gap=chain.gradient_gap / 2.0)
        more += (("a smaller gap", True, nearer.guarantee),)
    return Question("chain", chain.guarantee, more, about=(chain, None))


def _diffusion(seed: int, rng: random.Random) -> Question:
    diffusion = pabi.LangevinDiffusion(
        **_sampled(rng),
        inverse_temperature=rng.choice((amount(rng, 0.1, 30.0), np.array([1.0, 2.0, 0.5]))),
        time=amount(rng, 1e-2, 5.0),
        diameter=rng.choice((None, amount(rng, 0.1, 10.0))),
        release=rng.choice(("last", "last", "path")),
    )
    more: tuple[tuple[str, bool, Ask], ...] = ()
    if np.ndim(diffusion.inverse_temperature) == 0:
        longer = replace(diffusion, time=2.0 * diffusion.time)
        more = (("more time", False, longer.guarantee),)
    return Question("diffusion", diffusion.guarantee, more, about=(diffusion, None))


def _exponential(seed: int, rng: random.Random) -> Question:
    mechanism = pabi.ExponentialMechanism(
        **_sampled(rng),
        dimension=rng.randint(1, 5),
        diameter=amount(rng, 0.1, 10.0),
        inverse_temperature=amount(rng, 0.1, 100.0),
    )
    warmer = replace(mechanism, inverse_temperature=mechanism.inverse_temperature / 2.0)
    return Question(
        "exponential mechanism",
        mechanism.guarantee,
        (("warmer", True, warmer.guarantee),),
        about=(mechanism, None),
    )


def _iterated(seed: int, rng: random.Random) -> Question:
    shared = _sampled(rng)
    del shared["gradient_gap"]
    mechanism = pabi.IteratedExponentialMechanism(
        **shared,
        dimension=rng.randint(1, 4),
        diameter=amount(rng, 0.1, 10.0),
        epsilons=[amount(rng, 0.1, 3.0) for _ in range(rng.randint(1, 3))],
        failure=amount(rng, 1e-9, 0.1),
        split=rng.choice((None, rng.randint(0, 3))),
    )
    return Question("iterated exponential mechanism", mechanism.guarantee, about=(mechanism, None))


def _iteration(seed: int, rng: random.Random) -> Question:
    steps, chance = rng.randint(1, 20), np.random.default_rng(seed)
    scalar = rng.random() < 0.3
    slopes: Any = amount(rng, 0.3, 1.5) if scalar else chance.uniform(0.3, 1.3, steps)
    sensitivity: Any = amount(rng, 0.01, 3.0) if scalar else chance.uniform(0.0, 1.0, steps)
    noise: Any = amount(rng, 0.1, 10.0) if scalar else chance.uniform(0.1, 3.0, steps)
    if not scalar:
        sensitivity[chance.random(steps) < 0.3] = 0.0
        noise[chance.random(steps) < 0.1] = 0.0
        slopes[chance.random(steps) < 0.05] = 0.0
    moduli: dict[str, Any] = {"contraction": slopes}
    if rng.random() < 0.3:
        one = descriptions.a_loss(rng).modulus(amount(rng, 0.01, 1.0))
        moduli = {"moduli": one if scalar else [one] * steps}
    iteration = pabi.NoisyIteration(
        **moduli,
        step_sensitivity=sensitivity,
        step_noise_std=noise,
        diameter=rng.choice((None, amount(rng, 0.1, 10.0))),
        start=rng.choice((0.0, 0.0, amount(rng, 0.1, 3.0))),
        steps=steps if scalar else None,
        adjacency=_adjacency(rng),
        unit=rng.choice(("record", "user")),
    )
    noisier = replace(iteration, step_noise_std=1.5 * iteration.step_noise_std)
    return Question(
        "iteration",
        iteration.guarantee,
        (("more noise", True, noisier.guarantee),),
        about=(iteration, None),
    )


# Statistics.


def _statistics(seed: int, rng: random.Random) -> Question:
    n, noise = rng.randint(1, 1000), amount(rng, 0.1, 100.0)
    statistic = rng.choice(("counts", "moments", "levels"))
    made: Any = rng.choice(
        (
            lambda: pabi.NoisySecondMoments(
                n,
                rng.randint(1, 20),
                amount(rng, 0.1, 10.0),
                noise_std=noise,
                adjacency=_adjacency(rng),
                diagonal=rng.random() < 0.5,
                unit=rng.choice(("record", "user")),
            ),
            lambda: pabi.NoisyColumnStatistics(
                n,
                rng.randint(1, 20),
                statistic,
                questions=rng.randint(1, 5) if statistic == "counts" else 1,
                noise_std=noise,
                threshold=rng.uniform(0.0, 37.0) if statistic == "levels" else None,
                adjacency=_adjacency(rng),
            ),
            lambda: pabi.NoisyAccuracy(
                n, noise, _adjacency(rng), rng.choice(("record", "user")), pairs=rng.random() < 0.5
            ),
        )
    )()
    noisier = replace(made, noise_std=1.5 * noise)
    return Question(
        "statistic", made.guarantee, (("more noise", True, noisier.guarantee),), about=(made, None)
    )


# What is made of guarantees.


def _selection(seed: int, rng: random.Random) -> Question:
    base = _one_of(rng, seed)
    mean, shape = 1.0 + amount(rng, 0.02, 100.0), rng.uniform(-0.9, 3.0)
    scoring = None
    if rng.random() < 0.3:
        score = pabi.NoisyAccuracy(rng.randint(1, 100), amount(rng, 0.01, 1.0), _adjacency(rng))
        scoring = score.guarantee(1e-5)

    def ask(mean: float) -> Ask:
        return lambda delta: pabi.select(base(delta), mean, shape, scoring=scoring)

    return Question("selection", ask(mean), (("more trials", False, ask(1.5 * mean)),))


def _composition(seed: int, rng: random.Random) -> Question:
    parts = [_one_of(rng, seed + i) for i in range(rng.randint(2, 3))]

    def ask(some: list[Ask]) -> Ask:
        return lambda delta: pabi.compose(*(one(delta) for one in some))

    return Question("composition", ask(parts), (("one less", True, ask(parts[:-1])),))


def _groups(seed: int, rng: random.Random) -> Question:
    base, size = _one_of(rng, seed), rng.randint(2, 20)
    return Question(
        "group",
        lambda delta: base(delta).for_groups(size),
        (("one less", True, lambda delta: base(delta).for_groups(size - 1)),),
    )


def _one_of(rng: random.Random, seed: int) -> Ask:
    """A question that is not itself made of others."""
    kind = rng.choice(SIMPLE)
    return KINDS[kind][1](seed, rng).ask


def _plan(seed: int, rng: random.Random) -> Question:
    losses = rng.choice(("convex", "strongly_convex", "nonconvex"))
    epsilon = amount(rng, 0.01, 10.0)

    def ask(delta: float) -> Guarantee:
        plan = pabi.erm.plan(
            rng.choice(("erm", "sco")),
            losses,
            n=rng.randint(1, 10_000),
            dimension=rng.randint(1, 50),
            lipschitz=amount(rng, 0.1, 10.0),
            diameter=amount(rng, 0.1, 10.0),
            epsilon=epsilon,
            delta=rng.choice((0.0, delta)),
            strong_convexity=amount(rng, 0.01, 1.0) if losses == "strongly_convex" else None,
            smoothness=rng.choice((None, amount(rng, 0.1, 10.0))),
            adjacency=_adjacency(rng),
        )
        guarantee = plan.run.guarantee(delta)
        if guarantee.epsilon(delta) > epsilon * (1.0 + 1e-12):
            raise AssertionError(f"the plan costs {guarantee.epsilon(delta)!r}, above {epsilon!r}")
        return guarantee

    return Question("plan", ask)


SIMPLE = ("run", "chain", "iteration", "statistic", "exponential mechanism")
KINDS: dict[str, tuple[int, Callable[[int, random.Random], Question]]] = {
    "run": (40, _run),
    "run of a position": (4, _position),
    "forgetting": (10, _forgetting),
    "chain": (8, _chain),
    "diffusion": (3, _diffusion),
    "exponential mechanism": (5, _exponential),
    "iterated exponential mechanism": (2, _iterated),
    "iteration": (8, _iteration),
    "statistic": (8, _statistics),
    "selection": (5, _selection),
    "composition": (4, _composition),
    "group": (3, _groups),
    "plan": (3, _plan),
}

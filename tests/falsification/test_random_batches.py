"""What is proven of random batches must not fall below what is exactly true in one dimension."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import binom

from pabi import FixedSize, Loss, NoisySGD, Poisson
from pabi.account.analyses import composition
from pabi.tradeoff import FixedSizeSubsampled, Gaussian, Subsampled
from support.falsification.claims import (
    EPSILONS,
    exceeding,
    guarantees,
    sampled_delta,
    sampled_delta_back,
)
from support.falsification.random_batches import (
    SAMPLERS,
    ZERO,
    Constant,
    Gaussians,
    Instance,
    Line,
    Sigmoid,
    divergences,
    hockey_stick,
    last_law,
    long_instance,
    random_instance,
    structured_instances,
)

CONVEX = Loss.convex(1.0, gradient_bound=1.0)


# The truth.


def test_one_poisson_step_is_the_sampled_gaussian():
    for mu, (n, b) in itertools.product([0.2, 1.0, 4.0], [(2, 1), (5, 2), (50, 1), (4, 4)]):
        base = ((Constant(0.0), n - 1),)
        one = Instance(base, Constant(1.0), ZERO, Poisson(b), (0.7,), (1.0 / (b * mu),), CONVEX)
        found, error = hockey_stick(one, EPSILONS)
        p = b / n
        assert error <= 1e-8, (mu, n)
        assert found[0] == pytest.approx(sampled_delta(mu, p, EPSILONS), rel=1e-9, abs=1e-9)
        back = sampled_delta_back(mu, p, EPSILONS)
        assert found[1] == pytest.approx(back, rel=1e-9, abs=1e-9), (mu, n)


def test_one_step_of_fixed_size_meets_the_bound_that_counts_both_records():
    """The record takes the place of one that pulls the other way: 2C, even when it then is zeroed."""
    for mu in [0.3, 1.5]:
        base, noise = ((Constant(-1.0), 4),), (2.0 / (2 * mu),)
        one = Instance(base, Constant(1.0), Constant(-1.0), FixedSize(2), (0.3,), noise, CONVEX)
        found, _ = hockey_stick(one, EPSILONS)
        assert found[0] == pytest.approx(sampled_delta(mu, 0.4, EPSILONS), rel=1e-9, abs=1e-9), mu
        zeroed, _ = hockey_stick(replace(one, other=ZERO), EPSILONS)
        law = Gaussians(np.array([0.6, 0.4]), np.array([0.0, mu]), 1.0)
        half = Gaussians(np.array([0.6, 0.4]), np.array([0.0, mu / 2]), 1.0)
        assert zeroed == pytest.approx(divergences(law, half, EPSILONS, math.inf), abs=1e-9), mu


def test_divergences_of_mixtures_are_their_integrals():
    p = Gaussians(np.array([0.2, 0.5, 0.3]), np.array([-2.0, 0.3, 1.0]), 0.4)
    q = Gaussians(np.array([0.6, 0.4]), np.array([0.0, 1.6]), 0.4)
    found = divergences(p, q, EPSILONS, math.inf)
    for (i, epsilon), (order, (a, b)) in itertools.product(
        enumerate(EPSILONS), enumerate(((p, q), (q, p)))
    ):

        def excess(y, a=a, b=b, epsilon=epsilon):
            return max(0.0, float(a.pdf([y])[0] - math.exp(epsilon) * b.pdf([y])[0]))

        truth = sum(quad(excess, y, y + 0.1)[0] for y in np.arange(-5.0, 5.0, 0.1))
        assert found[order, i] == pytest.approx(truth, abs=2e-8)  # quad's, at the kinks


def test_linear_losses_add_up_binomially():
    """X_t = −(Σ V_k)·s + noise: a mixture over how often the record was drawn."""
    for sampler in ["fixed_size", "poisson"]:
        n, b, t, eta, noise = 6, 2, 7, 0.4, 0.45
        draw = FixedSize(b) if sampler == "fixed_size" else Poisson(b)
        base = ((Constant(0.0), n - 1),)
        run = Instance(base, Constant(1.0), Constant(-1.0), draw, (eta,) * t, (noise,) * t, CONVEX)
        found, error = hockey_stick(run, EPSILONS)
        uses = binom.pmf(np.arange(t + 1), t, b / n)
        shifts = np.arange(t + 1) * eta / b
        std = eta * noise * math.sqrt(t)
        truth = divergences(
            Gaussians(uses, -shifts, std), Gaussians(uses, shifts, std), EPSILONS, math.inf
        )
        assert error <= 1e-7, sampler
        assert found == pytest.approx(truth, abs=1e-8), sampler


def test_one_step_between_walls():
    """Two atoms and a density, each compared by itself."""
    one = Instance(
        ((Constant(0.0), 1),),
        Constant(1.0),
        Constant(-1.0),
        FixedSize(2),
        (1.0,),
        (0.5,),
        CONVEX,
        diameter=1.2,
    )
    found, _ = hockey_stick(one, EPSILONS)
    for row, epsilon in zip(found.T, EPSILONS, strict=True):
        # N(−1/2, 1/4) against N(1/2, 1/4): the likelihood ratio is e^(−4x), cut at ±0.6.
        factor = math.exp(epsilon)
        tail, other = ndtr((-0.6 + 0.5) / 0.5), ndtr((-0.6 - 0.5) / 0.5)
        truth = max(0.0, tail - factor * other)
        cut = min(0.6, -epsilon / 4.0)
        if cut > -0.6:
            truth += ndtr((cut + 0.5) / 0.5) - tail - factor * (ndtr((cut - 0.5) / 0.5) - other)
        assert row == pytest.approx([truth, truth], abs=1e-9)


SIMULATED = {"fixed size": FixedSize(2), "Poisson": Poisson(2), "Poisson, cap": Poisson(2, cap=2)}


@pytest.mark.parametrize("walls", [None, 1.5])
@pytest.mark.parametrize("name", SIMULATED)
def test_the_law_is_that_of_the_algorithm(name, walls):
    """Simulated from the description: who is in the batch, one by one, and what they pull."""
    records = [Line(1.5, 0.4, 1.0), Line(1.5, 0.4, 1.0), Constant(-1.0), Sigmoid(1.0, 1.5, -0.3)]
    run = Instance(
        ((records[0], 2), (records[2], 1)),
        records[3],
        ZERO,
        SIMULATED[name],
        (0.8, 0.5, 0.7),
        (0.3, 0.4, 0.2),
        Loss.convex(1.5, gradient_bound=1.0).with_l2(0.2),
        diameter=walls,
        start=0.3,
        cooldown=1,
    )
    rng, samples = np.random.default_rng(5), 200_000
    x, half = np.full(samples, run.start), run.half
    for k, (eta, noise) in enumerate(zip(run.eta, run.noise, strict=True)):
        x = np.clip(x, -half, half) if k else x
        if name == "fixed size":
            order = np.argsort(rng.random((samples, 4)), axis=1)
            inside = order < 2
        else:
            inside = rng.random((samples, 4)) < 0.5
        if name == "Poisson, cap":
            inside &= inside.sum(axis=1, keepdims=True) <= 2
        pull = sum(inside[:, i] * g(x) for i, g in enumerate(records)) if k < 2 else 0.0
        x = x - eta * (pull / 2 + 0.2 * x) + eta * noise * rng.standard_normal(samples)
    law = last_law(run, run.record, 10)
    at = np.linspace(-1.5, 1.5, 61)
    seen = np.searchsorted(np.sort(x), at) / samples
    # The largest of 61 dependent deviations, each of standard deviation ≤ 1/(2√samples).
    assert np.abs(law.cdf(at) - seen).max() <= 4.0 * 0.5 / math.sqrt(samples)


# The accountant.


def violations(instance: Instance, claims: dict, rules=("empty", "empty")) -> list:
    """What the exact divergences exceed."""
    both, error = hockey_stick(instance, EPSILONS, rules)
    assert error <= 1e-7
    return exceeding(both.max(axis=0), error, claims)


def instances(sampler, adjacency, projected, count, seed=0):
    rng = np.random.default_rng([seed, SAMPLERS.index((sampler, adjacency)), projected])
    for _ in range(count):
        yield random_instance(rng, sampler, adjacency, projected), float(10 ** rng.uniform(-6, -1))


NAMES = [f"{sampler}, {adjacency}" for sampler, adjacency in SAMPLERS]


@pytest.mark.parametrize("count", [1, pytest.param(40, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("sampler", "adjacency"), SAMPLERS, ids=NAMES)
def test_random_instances_are_never_safer_than_proven(sampler, adjacency, count):
    for projected in [False, True]:
        for instance, delta in instances(sampler, adjacency, projected, count, seed=count):
            found = violations(instance, guarantees(instance.run, delta))
            assert not found, (found, delta, instance)


@pytest.mark.parametrize("count", [1, pytest.param(20, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("sampler", "adjacency"), SAMPLERS, ids=NAMES)
@pytest.mark.one_in(2)
def test_long_instances_are_never_safer_than_proven(sampler, adjacency, count):
    rng = np.random.default_rng([count, SAMPLERS.index((sampler, adjacency))])
    for _ in range(count):
        instance, delta = long_instance(rng, sampler, adjacency), float(10 ** rng.uniform(-5, -2))
        found = violations(instance, guarantees(instance.run, delta))
        assert not found, (found, delta, instance)


@pytest.mark.parametrize("part", range(12))
@pytest.mark.parametrize(("sampler", "adjacency"), SAMPLERS, ids=NAMES)
@pytest.mark.one_in(12)
def test_structured_instances_are_never_safer_than_proven(sampler, adjacency, part):
    for name, instance in [*structured_instances(sampler, adjacency)][part::12]:
        assert not violations(instance, guarantees(instance.run, 1e-3)), name


def accumulated(sampler, adjacency, t=100, sharpness=3.0):
    """(run, δ of it at EPSILONS): linear losses whose pulls all stay in the iterate, p = 1/10.

    p·√t·s/σ = 3: whoever pays for the record at one step with one factor of probability p is wrong.
    """
    n, p, eta = 10, 0.1, 0.5
    fixed = sampler == "fixed_size"
    record, other = Constant(1.0), ZERO if adjacency == "zero_out" else Constant(-1.0)
    base = Constant(-1.0) if fixed else Constant(0.0)
    noise = (2.0 if fixed else 1.0) / sharpness
    run = Instance(
        ((base, n - 1),),
        record,
        other,
        FixedSize(1) if fixed else Poisson(1),
        (eta,) * t,
        (noise,) * t,
        CONVEX,
    )
    times = np.arange(t + 1)
    used, std = binom.pmf(times, t, p), eta * noise * math.sqrt(t)
    laws = [
        Gaussians(used, -eta * (times * g.value + (t - times) * base.value), std)
        for g in (record, other)
    ]
    return run, divergences(*laws, EPSILONS, math.inf).max(axis=0)


@pytest.mark.parametrize(("sampler", "adjacency"), SAMPLERS, ids=NAMES)
@pytest.mark.one_in(2)
def test_what_accumulates_is_paid_in_full(sampler, adjacency):
    run, truth = accumulated(sampler, adjacency)
    for name, claim in guarantees(run.run, 1e-3).items():
        for epsilon, true in zip(EPSILONS.tolist(), truth.tolist(), strict=True):
            assert claim.delta(epsilon) >= true - 1e-9, (name, epsilon)


# That the search can fail.


def half_told(instance: Instance) -> Instance:
    """The same run, of which the accountant hears half the gradient bound: L = C in place of 2C."""
    if instance.clip is not None:
        return replace(instance, clip=instance.clip / 2)
    told = dict(instance.loss.parameters)
    told["gradient_bound"] /= 2
    return replace(instance, loss=replace(instance.loss, parameters=tuple(told.items())))


def test_forgetting_that_the_record_displaces_another_is_caught():
    """Under fixed size a zeroed record counts 2C; C is refuted by random search and by one step."""
    assert any(
        violations(instance, guarantees(half_told(instance).run, delta))
        for instance, delta in instances("fixed_size", "zero_out", False, 12)
    )
    # One step against a base that pulls the other way, C_p(G(C/(bς))) written out.
    base = ((Constant(-1.0), 9),)
    one = Instance(base, Constant(1.0), ZERO, FixedSize(1), (1.0,), (1.0,), CONVEX)
    assert violations(one, {"C for 2C": Subsampled(Gaussian(1.0), 0.1)})
    assert violations(one, {"a little less": FixedSizeSubsampled(1.99, 0.995, 0.995, 0.1)})
    assert not violations(one, {"both": FixedSizeSubsampled(2.0, 1.0, 1.0, 0.1)})
    assert not violations(one, {"2C": Subsampled(Gaussian(2.0), 0.1)})


def enumerated(gradients, size, record):
    """The means of all batches of `size` of these gradients, with that of `record` zeroed, one batch a row:
    shape (batches, 2)."""
    zeroed = gradients.copy()
    zeroed[record] = 0.0
    batches = [list(x) for x in itertools.combinations(range(gradients.size), size)]
    return np.array([[g[x].sum() / size for g in (gradients, zeroed)] for x in batches])


def masses(places, noise, edges):
    """The exact masses of cells under Gaussians around `places`, all equally likely."""
    return np.diff(ndtr((edges - places[:, None]) / noise), axis=1).mean(axis=0)


def exceed(seed):
    """Two steps on linear losses, every batch of a few records listed: outcomes merged to cells, so that
    nothing is more private than it seems. Whether the last iterate, or both, exceed what is claimed."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    size, noise = int(rng.integers(1, n)), rng.uniform(0.3, 2.0)
    gradients = rng.choice([-1.0, 1.0, 1.0, rng.uniform(-1.0, 1.0)], n)
    if seed % 2:
        gradients = np.append(rng.choice([-1.0, 1.0]), np.ones(n - 1))
    means = enumerated(gradients, size, 0)
    run = NoisySGD(CONVEX, n=n, batches=FixedSize(size), steps=2, step_size=1.0, noise_std=noise)
    run = replace(run, adjacency="zero_out")
    last, path = run.guarantee(1e-4), composition.apply(run, 1e-4).curve
    far = np.linspace(-2.0 - 6.0 * noise, 2.0 + 6.0 * noise, 220)
    edges = np.concatenate([[-math.inf], far, [math.inf]])
    steps = [masses(x, noise, edges) for x in means.T]
    sums = [np.add.outer(x, x).ravel() for x in means.T]
    ends = [masses(x, math.sqrt(2.0) * noise, 2.0 * edges) for x in sums]
    both = [np.outer(x, x).ravel() for x in steps]
    for guarantee, (one, two) in ((last, ends), (path, both)):
        for epsilon in (0.0, 0.1, 0.5, 1.5):
            claim = guarantee.delta(epsilon) * (1.0 + 1e-9) + 1e-12
            for p, q in ((one, two), (two, one)):
                if np.maximum(p - math.exp(epsilon) * q, 0.0).sum() > claim:
                    return True
    return False


@pytest.mark.parametrize("count", [20, pytest.param(120, marks=pytest.mark.nightly)])
def test_no_run_of_which_all_batches_are_listed_tells_more(count):
    for seed in range(count):
        assert not exceed(seed), seed


def test_two_pulls_accounted_as_one_are_caught():
    """Poisson batches, a record replaced by one that pulls the other way, accounted as zeroed."""
    assert any(
        violations(instance, guarantees(replace(instance, other=ZERO).run, delta))
        for instance, delta in instances("poisson", "replace_one", False, 12)
    )


def test_a_record_that_does_not_count_towards_the_cap_is_caught():
    """A zeroed record is still drawn: were it gone from the count, whole batches would differ."""
    base = ((Constant(1.0), 2),)
    one = Instance(base, Constant(-1.0), ZERO, Poisson(2, cap=2), (1.0,), (0.5,), CONVEX)
    claims = guarantees(one.run, 1e-3)
    assert not violations(one, claims)
    assert {name for name, *_ in violations(one, claims, ("empty", "uncounted"))} == set(claims)


def test_paying_more_than_one_step_at_one_step_is_caught():
    """The two-sided shift may pay s_k a step, and no more.

    While the record is not drawn nothing is paid and the distance stays c·z: with a = c·z + s at
    the last but one of t steps the next distance is c·z, not 0. Taking it for 0 leaves the factors
    C_p(G((2c·z + s)/σ)) ⊗ C_p(G(s/σ)), whose δ(0) is at most the sum of theirs, at most 2p.
    """
    t, sharpness, p = 100, 3.0, 0.1
    run, truth = accumulated("fixed_size", "replace_one", t, sharpness)
    z = (t - 2) * sharpness  # in units of σ; c = 1
    wrong = sampled_delta(2 * z + sharpness, p, 0.0) + sampled_delta(sharpness, p, 0.0)
    assert wrong <= 2 * p < 0.7 < truth[0]
    assert run.run.guarantee(1e-3).delta(0.0) >= truth[0] - 1e-9


# A Poisson batch above the cap may be replaced by an empty one, never be cut.

SMALL = np.array([0.0, 0.01, 0.2, 1.0])


def one_step(cap: int, pull: float, mu: float) -> Instance:
    """One record in fifty is expected; the others pull by `pull`, the record in question by 1."""
    others, loss = ((Constant(pull), 49),), Loss.convex(1.0, gradient_bound=1.0)
    return Instance(others, Constant(1.0), ZERO, Poisson(1, cap=cap), (1.0,), (1.0 / mu,), loss)


def test_a_batch_cut_to_the_cap_costs_more_than_is_claimed():
    """It is seen to be there from the others not being there: δ(0.2) = 2.27e-4 instead of 1.29e-4."""
    one = one_step(1, -1.0, 1.0)
    truth, error = hockey_stick(one, [0.2], ("truncate", "truncate"))
    claim = sampled_delta(1.0, 0.02, 0.2)
    assert truth.max() == pytest.approx(2.268e-4, rel=1e-3)
    assert claim == pytest.approx(1.292e-4, rel=1e-3)
    assert error <= 1e-7
    said = one.run.guarantee(1e-5).delta(0.2)
    assert said == pytest.approx(claim, rel=0.05)
    assert truth.max() - error > said
    assert 0.0 < hockey_stick(one, [0.2])[0].max() <= said


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_empty_batches_never_cost_more_than_is_claimed(mu):
    """Whichever way the others pull, and at every ε; rounding of 1e-14 is allowed for."""
    for cap, pull in itertools.product((1, 2, 3, 50), (-1.0, -0.4, 0.0, 0.3, 1.0)):
        one = one_step(cap, pull, mu)
        truth, _ = hockey_stick(one, SMALL)
        back = sampled_delta_back(mu, 0.02, SMALL)
        claim = np.maximum(sampled_delta(mu, 0.02, SMALL), back)
        assert np.all(truth.max(axis=0) <= claim + 1e-14), (cap, pull)

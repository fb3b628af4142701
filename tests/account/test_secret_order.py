"""Shuffled batches against exact truth: on quadratic losses the output is a mixture of Gaussians.

Record i has the loss h_i x²/2 − b_i x in one dimension. Given the order of the records, the last
iterate of noisy SGD is Gaussian; over the secret order it is a mixture with as many parts as there are
orders. For any event A, P(A) − e^ε Q(A) is a lower bound on the exact δ(ε); A is taken as the cells of
a fine grid on which the density ratio exceeds e^ε, and its probabilities are exact. So a guarantee
below this bound is refuted, without any tolerance but rounding.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

import pabi
from pabi import Cyclic, FullBatch, Loss, NoisySGD, NotApplicable, Reshuffle, ShuffleOnce
from pabi.account.analyses import secret_order, shifted_interpolation
from pabi.account.best import outcomes
from pabi.account.facts.positions import OrderedView
from support.every_case import every

DELTA = 0.01


def describe(batches, **changes):
    fields = {"loss": Loss.convex(smoothness=1.0, l2=0.03), "n": 50, "batches": batches}
    fields |= {"epochs": 6, "step_size": 0.5, "noise_std": 1.0, "gradient_sensitivity": 8.0}
    return NoisySGD(**{**fields, **changes})


EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
ROUNDING = 1e-11  # of means kept to 13 digits, and of sums


def orders(n, size, spare):
    """All partitions of the records but so many into an ordered list of batches, equally likely."""
    starts = range(0, n - spare, size)
    found = {
        tuple(frozenset(chosen[a : min(a + size, n - spare)]) for a in starts)
        for chosen in itertools.permutations(range(n))
    }
    return sorted(found, key=lambda parts: [sorted(p) for p in parts])


def order_sequences(run):
    """Every equally likely sequence of batches, one entry per step with data."""
    one = orders(run.n, run.batch_size, run.batches.spare)
    period, data = run.steps_per_epoch, run.data_steps
    epochs = -(-data // period)
    if run.batches.kind == "reshuffle":
        sequences = (sum(chosen, ()) for chosen in itertools.product(one, repeat=epochs))
    else:
        sequences = (parts * epochs for parts in one)
    return [s[:data] for s in sequences]


def outputs(run, h, b):
    """(mean, variance) of the last iterate for every sequence of batches, arrays."""
    step = np.broadcast_to(run.step_size, run.steps)
    noise = np.broadcast_to(run.noise_std, run.steps)
    means, variances = [], []
    for batches in order_sequences(run):
        mean, variance = 0.0, 0.0
        for k in range(run.steps):
            rows = list(batches[k]) if k < len(batches) else []
            curvature = h[rows].sum() / run.batch_size + run.loss.l2
            pull = b[rows].sum() / run.batch_size
            slope = 1.0 - step[k] * curvature
            mean = slope * mean + step[k] * pull
            variance = slope**2 * variance + (step[k] * noise[k]) ** 2
        means.append(mean)
        variances.append(variance)
    return np.array(means), np.array(variances)


def lower_deltas(p, q, cells=2000):
    """Lower bounds, in both directions, on the hockey-stick divergences of two Gaussian mixtures at
    `EPSILONS`."""
    (mean_p, var_p), (mean_q, var_q) = p, q
    means, stds = np.append(mean_p, mean_q), np.sqrt(np.append(var_p, var_q))
    points = np.sort((means[:, None] + stds[:, None] * np.linspace(-8.0, 8.0, 65)).ravel())
    edges = np.unique(points[:: max(1, len(points) // cells)])

    def masses(mean, var):
        parts, counts = np.unique(np.round([mean, var], 13), axis=1, return_counts=True)
        total = np.zeros(len(edges) - 1)
        for m, v, count in zip(*parts, counts, strict=True):
            z = (edges - m) / math.sqrt(v)
            left, right = ndtr(z), ndtr(-z)
            mass = np.where(z[:-1] > 0.0, right[:-1] - right[1:], left[1:] - left[:-1])
            total += count * mass
        return total / len(mean)

    mass_p, mass_q = masses(mean_p, var_p), masses(mean_q, var_q)
    factors = np.exp(EPSILONS)[:, None]
    forth = np.maximum(mass_p - factors * mass_q, 0.0).sum(axis=1)
    back = np.maximum(mass_q - factors * mass_p, 0.0).sum(axis=1)
    return np.maximum(forth, back)


def truth(run, h, b, sensitivity):
    """Lower bounds on δ for record 0 replaced by one whose b differs by L."""
    other = b.copy()
    other[0] += sensitivity
    return lower_deltas(outputs(run, h, b), outputs(run, h, other))


def schedules(rng, steps, kind):
    if kind == "constant":
        return float(rng.uniform(0.1, 1.5)), float(rng.uniform(0.3, 2.0))
    step = rng.uniform(0.1, 1.5, steps)
    if kind == "rising":
        step = np.sort(step)
    if kind == "falling":
        step = np.sort(step)[::-1].copy()
    return step, rng.uniform(0.3, 2.0, steps)


def random_run(
    rng, batches, kind, n, size, epochs=None, steps=None, cooldown=0, smoothness=None, spare=0
):
    loss = Loss.convex(
        smoothness=float(smoothness or rng.uniform(0.1, 1.3)),
        l2=float(rng.choice([0.0, rng.uniform(0.0, 0.3)])),
    )
    sensitivity = float(rng.uniform(0.3, 4.0))
    period = -(-(n - spare) // size)
    total = (epochs * period if steps is None else steps) + cooldown
    step, noise = schedules(rng, total, kind)
    given = {"steps": total, "step_size": step, "noise_std": noise}
    given |= {"gradient_sensitivity": sensitivity, "cooldown_steps": cooldown}
    return NoisySGD(loss, n, batches(size, spare), **given)


def data(rng, run, case):
    """Curvatures within the loss's interval and pulls; wide pulls reveal the order of the records."""
    hi = run.loss.curvature[1]
    if case == "same":
        h, b = np.full(run.n, rng.choice([0.0, hi])), np.zeros(run.n)
    elif case == "revealing":
        h, b = np.full(run.n, rng.choice([hi, hi / 2])), 30.0 * np.arange(run.n) ** 1.5
    else:
        h, b = rng.choice([0.0, hi, rng.uniform(0, hi)], run.n), rng.normal(0.0, 3.0, run.n)
    b[0] = rng.normal()
    return h, b


# n, size, epochs, extra steps: short last batches and partial epochs included.
ONCE = [(3, 1, 3, 0), (4, 2, 3, 1), (5, 2, 2, 1), (3, 2, 4, 0), (4, 1, 2, 3), (4, 3, 3, 1)]
EVERY = [(3, 1, 2, 0), (3, 1, 2, 2), (4, 2, 2, 1), (3, 2, 4, 0), (5, 3, 2, 0), (4, 3, 2, 1)]


class TestTruth:
    @pytest.mark.parametrize("case", ["same", "revealing", "mixed"])
    @pytest.mark.parametrize(
        ("batches", "kind"),
        [
            *((ShuffleOnce, kind) for kind in ("constant", "rising", "falling", "any")),
            *((Reshuffle, kind) for kind in ("constant", "rising", "falling")),
        ],
    )
    @pytest.mark.parametrize("cooldown", [0, 2])
    @pytest.mark.parametrize(
        "part", [slice(1, None, 2), pytest.param(slice(None), marks=pytest.mark.nightly)]
    )
    @pytest.mark.one_in(2)
    def test_no_claim_is_below_the_truth(self, case, batches, kind, cooldown, part):
        seed, shapes = (11, ONCE) if batches is ShuffleOnce else (12, EVERY)
        rng = np.random.default_rng([seed, len(case), len(kind), cooldown])
        for n, size, epochs, more in shapes[part]:
            steps = epochs * -(-n // size) + more
            run = random_run(rng, batches, kind, n, size, steps=steps, cooldown=cooldown)
            exact = truth(run, *data(rng, run, case), run.gradient_sensitivity)
            g = run.guarantee(delta=DELTA)
            assert np.all(g.delta(np.array(EPSILONS)) >= exact - ROUNDING), run

    @pytest.mark.parametrize("case", ["same", "revealing", "mixed"])
    @pytest.mark.parametrize("batches", [ShuffleOnce, Reshuffle])
    @pytest.mark.parametrize("kind", ["constant", "rising", "falling"])
    def test_records_may_be_left_out(self, case, batches, kind):
        """Of all analyses, where steps may expand as well."""
        rng = np.random.default_rng([14, len(case), len(kind), batches is Reshuffle])
        for n, size, steps, spare in [(3, 1, 4, 1), (4, 2, 2, 2), (4, 1, 3, 2), (5, 2, 3, 2)]:
            given = {"steps": steps, "smoothness": float(rng.choice([1.0, 6.0])), "spare": spare}
            run = random_run(rng, batches, kind, n, size, **given)
            exact = truth(run, *data(rng, run, case), run.gradient_sensitivity)
            for row in outcomes(run, DELTA):
                if row.guarantee is not None:
                    claimed = row.guarantee.delta(np.array(EPSILONS))
                    assert np.all(claimed >= exact - ROUNDING), (row.name, run)
                    assert pabi.verify(row.guarantee).ok

    @pytest.mark.parametrize("batches", [ShuffleOnce, Reshuffle])
    def test_one_step_with_records_left_out_is_the_mixture_by_hand(self, batches):
        """A step on 2 of 5 records: δ = 2/5·δ_μ, μ = L/(b·ς), which is attained with the batch in sight."""
        given = {"epochs": 1, "step_size": 1.0, "noise_std": 1.0, "gradient_sensitivity": 3.0}
        run = NoisySGD(Loss.convex(1.0), 5, batches(2, spare=3), **given)
        g, mu = secret_order.apply(run, DELTA), 3.0 / 2.0
        for epsilon in EPSILONS:
            below = math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            one = norm.cdf(mu / 2 - epsilon / mu) - below
            assert g.delta(epsilon) == pytest.approx(0.4 * one, rel=1e-9)

    def test_the_truth_is_not_vacuous(self):
        """With the order revealed by the other records and one epoch, the bound is nearly attained."""
        given = {"epochs": 1, "step_size": 1.0, "noise_std": 1.0, "gradient_sensitivity": 2.0}
        run = NoisySGD(Loss.convex(smoothness=0.5, l2=0.2), 3, ShuffleOnce(1), **given)
        exact = truth(run, np.zeros(3), np.array([0.0, 400.0, 1500.0]), 2.0)
        claimed = run.guarantee(delta=DELTA).delta(np.array(EPSILONS))
        assert np.all(claimed >= exact - ROUNDING)
        # The bound pays only from the record's step on; the exact output has all noise before it too.
        assert exact[0] > 0.8 * claimed[0]


LATER_IS_WORSE = [
    *({}, {"epochs": 2.5}, {"epochs": 0.4}, {"epochs": 1}, {"cooldown_steps": 9}),
    *({"diameter": 0.6}, {"diameter": 0.6, "cooldown_steps": 4}),
    {"epochs": None, "steps": 33, "step_size": np.linspace(0.1, 1.0, 33)},
    {"epochs": None, "steps": 33, "noise_std": np.linspace(2.0, 0.5, 33)},
    {"loss": Loss.logistic(feature_norm=1.0), "gradient_sensitivity": None, "clip_norm": 0.5},
]
EARLIER_CAN_BE_WORSE = [
    {"loss": Loss.nonconvex(0.2)},
    {"loss": Loss.nonconvex(0.2), "cooldown_steps": 3},
    {"epochs": None, "steps": 33, "step_size": np.linspace(1.0, 0.1, 33)},
]
VARIANTS = [*LATER_IS_WORSE, *EARLIER_CAN_BE_WORSE]


class TestAgainstOtherBounds:
    @every("changes", VARIANTS)
    @every("size", [5, 8])
    def test_mean_of_the_positions(self, changes, size):
        """δ = Σ_j |B_j|/n · δ_{G(μ_j)}, with μ_j that of a cyclic run."""
        g = secret_order.apply(describe(ShuffleOnce(size), **changes), DELTA)
        cyclic = describe(Cyclic(size), **changes)
        starts = range(0, 50, size)
        known = [shifted_interpolation.apply(cyclic, DELTA, j) for j in range(len(starts))]
        worst = shifted_interpolation.apply(cyclic, DELTA).mu
        assert max(g.curve.mus) == pytest.approx(worst, rel=1e-12)
        for epsilon in EPSILONS:
            shares = [min(size, 50 - start) / 50 for start in starts]
            mean = sum(s * k.delta(epsilon) for s, k in zip(shares, known, strict=True))
            assert g.delta(epsilon) == pytest.approx(mean, rel=1e-9, abs=1e-300)

    def test_reshuffling_is_at_most_the_worst_of_the_last_epochs(self):
        """Every case of reshuffling is no worse than the record at the end of every epoch."""
        for changes in ({}, {"epochs": 2.5}, {"cooldown_steps": 9}, {"diameter": 0.6}):
            fresh = secret_order.apply(describe(Reshuffle(8), **changes), DELTA)
            # Moving all uses to the very end of their epochs, the partial one included.
            run = describe(Cyclic(8), **changes)
            c, s, sigma = OrderedView(run).arrays
            k = np.arange(run.steps)
            ends = (k < run.data_steps) & ((k % 7 == 6) | (k == run.data_steps - 1))
            worst = pabi.NoisyIteration(
                c, np.where(ends, s, 0.0), sigma, diameter=changes.get("diameter")
            ).guarantee(delta=DELTA)
            top = max(part.mu for part in getattr(fresh.curve, "parts", [fresh.curve]))
            assert top <= worst.mu * (1 + 1e-9)
            for epsilon in EPSILONS:
                assert fresh.delta(epsilon) <= worst.delta(epsilon) * (1 + 1e-9)

    def test_many_positions_are_rounded_to_later_ones(self):
        """Beyond a limit positions are pooled: never below the mean of all, and close to it."""
        run = describe(ShuffleOnce(1), n=5000, epochs=3, gradient_sensitivity=2.0)
        g = secret_order.apply(run, DELTA)
        assert len(g.curve.parts) <= 2048
        cyclic = describe(Cyclic(1), n=5000, epochs=3, gradient_sensitivity=2.0)
        sample = np.unique(np.concatenate([np.arange(0, 4900, 70), np.arange(4900, 5000)]))
        mus = np.array([shifted_interpolation.apply(cyclic, DELTA, int(j)).mu for j in sample])
        assert np.all(np.diff(mus) >= -1e-15)
        # Below, each position counts as the sampled one before it; above, as the one after it.
        gaps = np.diff(np.append(sample, 5000))
        for epsilon in (0.0, 0.5, 1.0):
            deltas = np.array([pabi.tradeoff.Gaussian(m).delta(epsilon) for m in mus])
            below = float((gaps * deltas).sum()) / 5000
            above = float((gaps * np.append(deltas[1:], deltas[-1])).sum()) / 5000
            assert g.delta(epsilon) >= below * (1 - 1e-9)
            assert g.delta(epsilon) <= above * 1.02


class TestWhenItApplies:
    @pytest.mark.parametrize(
        "changes",
        [*EARLIER_CAN_BE_WORSE, {"epochs": 3, "loss": Loss.convex(1.0), "step_size": 2.5}],
    )
    def test_reshuffling_needs_later_uses_to_be_worse(self, changes):
        run = describe(Reshuffle(8), **changes)
        with pytest.raises(NotApplicable):
            secret_order.apply(run, DELTA)
        with pytest.raises(NotApplicable, match="an earlier use can be worse than a later one"):
            secret_order.reshuffled(OrderedView(run), run.order)
        g = run.guarantee(delta=DELTA)
        assert g.method in ("latest uses", "epoch by epoch", "composition")
        assert pabi.verify(g).ok

    def test_what_has_no_secret_order_or_no_hidden_path(self):
        hidden = [
            describe(batches, **changes)
            for batches in (ShuffleOnce(8), Reshuffle(8))
            for changes in ({"release": "path"}, {"update": "other"})
        ]
        bare = pabi.NoisyIteration(0.9, 1.0, 1.0, steps=4)
        for description in (*hidden, describe(Cyclic(8)), describe(FullBatch()), bare):
            with pytest.raises(NotApplicable):
                secret_order.apply(description, DELTA)

    def test_composition_of_a_path_knows_how_often_a_record_is_used(self):
        """Three batches, seven steps: a third of the records is read thrice, the rest twice."""
        run = describe(ShuffleOnce(2), n=6, epochs=None, steps=7, release="path")
        g = run.guarantee(delta=DELTA)
        assert list(g.curve.mus) == pytest.approx([4.0 * math.sqrt(2), 4.0 * math.sqrt(3)])
        assert g.curve.weights == pytest.approx([2 / 3, 1 / 3])

"""How far computed steps are from exact ones: bounds against steps in many digits, and what they cost."""

import json
import math
from dataclasses import replace
from functools import partial

import mpmath
import numpy as np
import pytest

import pabi
from pabi import (
    BallsInBins,
    Cyclic,
    FullBatch,
    Loss,
    NoisySGD,
    ShuffleOnce,
    learn,
    prox,
)
from pabi.describe.vector_losses import executable
from pabi.execute.computed_steps import (
    ACCURATE,
    EXACT,
    _of_a_gradient,
    _reach,
    as_computed,
    paid_for,
    rests_on,
    rounding_of,
)
from pabi.execute.engine import gradient_sum_of
from pabi.execute.hiding import walk_of
from pabi.execute.linear_gradients import LossGradients
from pabi.execute.sums import additions_of_blocks
from pabi.learn import train
from pabi.numbers import rounding
from pabi.sampling import langevin, mean_gradient
from support.every_case import every, refused
from support.execution import Crash

D, K, N = 5, 3, 6
RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(N, D))
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True) * (1.0 + 1e-12)
SIGNS, CODES, NUMBERS = RNG.integers(0, 2, N), RNG.integers(0, K, N), RNG.uniform(0.0, 4.0, N)


def product(a, b):
    """Σ a_i·b_i, exactly."""
    return sum(mpmath.mpf(x) * mpmath.mpf(y) for x, y in zip(a, b, strict=True))


def sign_of(y):
    return 2 * int(y) - 1


def logistic(z, y):
    s = sign_of(y)
    return [-s / (1 + mpmath.exp(s * z[0]))]


def hinge(z, y):
    s = sign_of(y)
    return [s * min(mpmath.mpf(0), max(mpmath.mpf(-1), (s * z[0] - 1) / mpmath.mpf(0.3)))]


def squared(z, y):
    return [min(mpmath.mpf(2), max(mpmath.mpf(-2), z[0] - mpmath.mpf(y)))]


def poisson(z, y):
    return [mpmath.exp(min(z[0], mpmath.mpf(1.5))) - min(mpmath.mpf(y), mpmath.mpf(3))]


def gamma(z, y):
    return [max(mpmath.mpf(-2), 1 - mpmath.mpf(y) * mpmath.exp(-z[0]))]


def softmax(z, y):
    parts = [mpmath.exp(one) for one in z]
    total = sum(parts)
    return [part / total - (k == y) for k, part in enumerate(parts)]


def one_vs_rest(z, y):
    return [logistic([one], int(k == y))[0] for k, one in enumerate(z)]


POISSON = Loss.poisson(1.0, predictor_bound=1.5, count_bound=3.0)
LOSSES = {
    "logistic": (Loss.logistic(1.0), learn.LogisticGradients, SIGNS, logistic),
    "hinge": (Loss.smoothed_hinge(1.0, smoothing=0.3), learn.SmoothedHingeGradients, SIGNS, hinge),
    "squared": (Loss.squared(1.0, residual_bound=2.0), learn.SquaredGradients, NUMBERS, squared),
    "poisson": (
        Loss.poisson(1.0, predictor_bound=1.5, count_bound=3.0),
        learn.PoissonGradients,
        NUMBERS,
        poisson,
    ),
    "softmax": (Loss.softmax(1.0), learn.SoftmaxGradients, CODES, softmax),
    "one_vs_rest": (Loss.one_vs_rest(1.0, classes=K), learn.OneVsRestGradients, CODES, one_vs_rest),
}
FURTHER = {
    "hinge": (0.3,),
    "squared": (2.0,),
    "poisson": (1.5, 3.0),
    "softmax": (K,),
    "one_vs_rest": (K,),
}


def run_of(loss, **changes):
    given = {"batches": FullBatch(), "steps": 3, "step_size": 0.5, "noise_std": 0.05, **changes}
    return NoisySGD(loss, N, given.pop("batches"), **given)


def off_by(name, size):
    """(how far a sum is from the exact one, what the bound is, where iterates are of this size)."""
    loss, make, targets, derivatives = LOSSES[name]
    gradients = make(learn.Records(ROWS, 1.0), targets, *FURTHER.get(name, ()))
    run = run_of(loss)
    outputs = 1 if len(gradients.shape) == 1 else K
    theta = RNG.normal(size=gradients.shape)
    theta *= size / np.linalg.norm(theta)
    computed = gradient_sum_of(run, gradients)(theta, slice(0, N))
    columns = theta.reshape(D, outputs)
    exact = [[mpmath.mpf(0)] * outputs for _ in range(D)]
    for row, y in zip(ROWS.tolist(), targets.tolist(), strict=True):
        z = [
            sum(mpmath.mpf(a) * mpmath.mpf(b) for a, b in zip(row, c, strict=True))
            for c in columns.T.tolist()
        ]
        for j, derivative in enumerate(derivatives(z, y)):
            for i in range(D):
                exact[i][j] += derivative * mpmath.mpf(row[i])
    shrink = mpmath.mpf(1) - mpmath.mpf(room(run))
    gaps = [
        mpmath.mpf(float(computed.reshape(D, outputs)[i, j])) - shrink * exact[i][j]
        for i in range(D)
        for j in range(outputs)
    ]
    clip = run.record_gradient_bound
    sums = (N + 16.0) * 2.0**-53 * clip
    bound = N * (sums + _of_a_gradient(run, size, (D, outputs), clip))
    return float(mpmath.sqrt(sum(gap * gap for gap in gaps))), bound


def room(run):
    """What clipping leaves for the rounding of sums."""
    from pabi.execute.sums import Limit

    return 1.0 - Limit.of(run, N).shrink


@every("name", list(LOSSES))
@pytest.mark.parametrize("size", [0.1, 3.0, 1e4])
def test_sums_are_no_farther_from_exact_ones_than_bounded(name, size):
    pairs = [off_by(name, size) for _ in range(4)]
    assert all(off <= bound for off, bound in pairs)
    assert max(off / bound for off, bound in pairs) > 1e-5 or size > 10.0


def test_derivatives_are_no_farther_from_exact_ones_than_bounded():
    """Of numbers one by one, clipped or not."""
    z = np.concatenate([RNG.normal(scale=4.0, size=300), [0.0, 30.0, -30.0]])
    for name in ("logistic", "hinge", "squared", "poisson"):
        described, _, _, derivatives = LOSSES[name]
        loss, y = executable(described.kind, **dict(described.parameters)), 2.5
        own = z.copy()
        loss.differentiate(own, np.full(len(z), y))
        margins = name in ("logistic", "hinge")
        exact = [derivatives([mpmath.mpf(one)], 1 if margins else y)[0] for one in z.tolist()]
        if name == "poisson":
            exact = [e - (mpmath.mpf(y) - min(mpmath.mpf(y), 3)) for e in exact]
        off = max(abs(mpmath.mpf(a) - b) for a, b in zip(own.tolist(), exact, strict=True))
        assert 0.0 < off <= loss.off(1, False, 40.0)


def test_no_iterate_is_farther_out_than_bounded():
    """Labels all alike and no regulariser, so that nothing holds iterates back; or noise alone."""
    X, norms = np.tile([1.0, 0.0], (N, 1)), []
    for noise_std, steps, step_size in ((1e-3, 400, 4.0), (0.3, 400, 0.5), (1e-3, 60, 8.0)):
        changes = {"steps": steps, "step_size": step_size, "noise_std": noise_std}
        run = run_of(Loss.logistic(1.0), release="path", **changes)
        most = _reach(run, walk_of(run, np.zeros((1, 2)))[0], (2,))
        gradients = learn.LogisticGradients(learn.Records(X, 1.0), np.ones(N, dtype=int))
        train(run, gradients, np.zeros(2), 1, watch=lambda k, x: norms.append(np.linalg.norm(x)))
        longest = max(norms)
        norms.clear()
        assert longest <= most
        assert longest > 0.05 * most
        assert most < 0.2 * walk_of(run, np.zeros((1, 2)))[0].size or steps == 60


GRADIENTS = learn.LogisticGradients(learn.Records(ROWS, 1.0), SIGNS)


def trained(run, gradients=GRADIENTS, start=None):
    return train(run, gradients, np.zeros(D) if start is None else start)


@every("batches", [Cyclic(2), ShuffleOnce(2), BallsInBins(2)])
def test_a_hidden_path_is_charged_for_rounding(batches):
    run = run_of(Loss.logistic(1.0), batches=batches, steps=21, noise_std=0.6)
    result = trained(run)
    assert 1e-12 < result.run.rounding < 1e-8
    mine, exact = result.guarantee, run.guarantee(1e-5)
    assert exact.epsilon(1e-5) * (1.0 - 1e-6) < mine.epsilon(1e-5) <= exact.epsilon(1e-5)
    assert 0.6 < result.run.noise_std < 0.6 * (1.0 + 1e-6)
    silent = replace(result.run, rounding=0.0).guarantee(1e-5)
    assert silent.epsilon(1e-5) < mine.epsilon(1e-5) == result.run.guarantee(1e-5).epsilon(1e-5)
    assert not {ACCURATE, EXACT} & set(mine.assumptions)
    # A longer path, or less noise, asks for more.
    more = [
        as_computed(run_of(Loss.logistic(1.0), batches=batches, **changes), (D,)).rounding
        for changes in ({"steps": 2100, "noise_std": 0.6}, {"steps": 21, "noise_std": 0.006})
    ]
    assert min(more) > result.run.rounding


def chain_of(loss, **changes):
    return pabi.LangevinChain(loss, N, 6.0, step_size=0.1, steps=60, **changes)


def test_chains_are_charged_for_rounding():
    loss = Loss.logistic(1.0, l2=0.1)
    given = chain_of(loss, chains=3)
    proven = given.guarantee(1e-5)
    draws = langevin(given, mean_gradient(ROWS, SIGNS, loss), np.zeros(D))
    assert 0.0 < draws.chain.rounding < 1e-8
    mine = draws.guarantee
    assert mine.epsilon(1e-5) <= proven.epsilon(1e-5)
    silent = replace(draws.chain, rounding=0.0).guarantee(1e-5)
    assert silent.epsilon(1e-5) < mine.epsilon(1e-5) == draws.chain.guarantee(1e-5).epsilon(1e-5)
    assert not {ACCURATE, EXACT} & set(mine.assumptions)
    # A description that says less than the run of the proof is refused.
    body = json.loads(mine.certificate.to_json())
    del body["run"]["rounding"]
    assert "rounding" in str(pabi.verify(json.dumps(body)))
    # Whoever computes gradients by themselves says how well, which single precision is not.
    assert ACCURATE in langevin(given, lambda x: 0.1 * x, np.zeros(D)).guarantee.assumptions
    shown = chain_of(loss, release="path")
    assert langevin(shown, mean_gradient(ROWS, SIGNS, loss), np.zeros(D)).chain is shown
    for dtype in (np.float16, np.float32):
        short = partial(np.multiply, dtype(0.1), dtype=dtype, casting="same_kind")
        assert "float64" in refused("gradient", langevin, given, short, np.zeros(D))
        langevin(shown, short, np.zeros(D))


@pytest.mark.parametrize("size", [0.1, 3.0, 1e4])
def test_gradients_of_samplers_are_no_farther_from_exact_ones_than_bounded(size):
    loss = Loss.logistic(1.0, l2=0.1)
    gradient = mean_gradient(ROWS, SIGNS, loss)
    theta = RNG.normal(size=(2, D))
    theta *= size / np.linalg.norm(theta, axis=1)[:, None]
    room = mpmath.mpf(2 * N * (additions_of_blocks(N) + 16)) / 2**53
    for mine, at in zip(gradient.of_data(theta).tolist(), theta.tolist(), strict=True):
        exact = [mpmath.mpf(0)] * D
        for row, y in zip(ROWS.tolist(), SIGNS.tolist(), strict=True):
            (derivative,) = logistic([product(row, at)], y)
            exact = [e + derivative * mpmath.mpf(x) for e, x in zip(exact, row, strict=True)]
        off = [mpmath.mpf(a) - (1 - room) * b / N for a, b in zip(mine, exact, strict=True)]
        sums = (additions_of_blocks(N) + 16.0) * 2.0**-53
        bound = sums + _of_a_gradient(chain_of(loss).run, size, (D,), 1.0)
        assert 0.0 < mpmath.sqrt(sum(x * x for x in off)) <= bound


@every(("clipping", "smoothing"), [("residual", None), ("ball", 0.3)])
def test_clipped_losses_of_several_classes_are_proven(clipping, smoothing):
    changes = {} if smoothing is None else {"smoothing": smoothing}
    loss = Loss.one_vs_rest(1.0, classes=K, **changes)
    clipped = {"steps": 60, "noise_std": 0.6, "clip_norm": 0.5, "clipping": clipping}
    run = run_of(loss, batches=Cyclic(2), **clipped)
    own = executable("one_vs_rest", classes=K, **changes)
    gradients = LossGradients(own, learn.Records(ROWS, 1.0), CODES, K)
    result = trained(run, gradients, np.zeros((D, K)))
    assert 1e-12 < result.run.rounding < 1e-8
    assert not {ACCURATE, EXACT} & set(result.guarantee.assumptions)


def test_what_nothing_bounds_is_assumed():
    hidden = {"steps": 60, "noise_std": 0.6, "batches": Cyclic(2)}

    def own(x, rows):
        return GRADIENTS(x, rows)

    stated = trained(run_of(Loss.convex(0.25, gradient_bound=1.0), **hidden), own).guarantee
    assert ACCURATE in stated.assumptions
    for dtype in (np.float16, np.float32):

        def short(x, rows, dtype=dtype):
            return own(x, rows).astype(dtype)

        loss = Loss.convex(0.25, gradient_bound=1.0)
        field = "per_record_gradients"
        assert "float64" in refused(field, trained, run_of(loss, **hidden), short)
        trained(run_of(loss, release="path", **hidden), short)
    thresholding = trained(
        run_of(Loss.softmax(1.0), prox=prox.nuclear_norm(0.1), **hidden),
        learn.SoftmaxGradients(learn.Records(ROWS, 1.0), CODES, K),
        np.zeros((D, K)),
    )
    assert thresholding.run.rounding > 0.0
    assert not {ACCURATE, EXACT} & set(thresholding.guarantee.assumptions)
    whole = trained(run_of(Loss.logistic(1.0), release="path", **hidden)).guarantee
    assert not {ACCURATE, EXACT} & set(whole.assumptions)
    unbounded = run_of(Loss.convex(0.25), gradient_sensitivity=1.0, **hidden)
    assert rests_on(unbounded, (D,)) == (EXACT,)
    assert math.isinf(rounding_of(unbounded, (D,))[0])
    # Who states too little is not believed, and who states more is charged for it.
    run = run_of(Loss.logistic(1.0), **hidden)
    assert rests_on(run, (D,)) == (EXACT,)
    large = run_of(Loss.logistic(1.0), rounding=1e-3, **hidden)
    assert trained(large).run.rounding == 1e-3
    assert trained(large).guarantee.epsilon(1e-5) > run.guarantee().epsilon(1e-5) * 1.0001


ROUGH = [
    (Loss.lipschitz(1.0), {}),
    (Loss.weakly_smooth([(0.5, 1.0)], gradient_bound=1.0), {}),
    (Loss.holder(0.5, 1.0, gradient_bound=1.0), {}),
    (Loss.holder(0.0, 1.0, gradient_bound=1.0), {}),
    (Loss.saddle(1.0), {}),
    (Loss.unknown(), {"clip_norm": 1.0}),
]


@every(("loss", "clipped"), ROUGH)
@every("batches", [FullBatch(), pabi.FixedSize(1)])
def test_gradients_that_jump_are_charged_for(loss, clipped, batches):
    """A path in a small ball that hides them: its noise is raised so that it costs no more."""
    run = NoisySGD(
        loss,
        2,
        batches,
        steps=2000,
        step_size=0.01,
        noise_std=100.0,
        prox=prox.ball(0.5),
        **clipped,
    )
    proven = run.guarantee()
    assert "hidden" in " ".join(proven.assumptions)
    louder, cost = paid_for(run, 1e-5, (D,), own=False)
    assert 1e-9 < louder.rounding < 1e-4
    assert cost.epsilon(1e-5) <= proven.epsilon(1e-5)
    assert np.max(louder.noise_std) < 100.2
    assert rests_on(louder, (D,), own=False) == (ACCURATE,)
    assert replace(run, rounding=louder.rounding).guarantee().epsilon(1e-5) > proven.epsilon(1e-5)


def test_where_jumps_may_be_of_any_size_is_said():
    """Without a jump nothing keeps what rounding does to gradients in proportion."""
    run = NoisySGD(
        *(Loss.lipschitz(1.0, l2=150.0), 2, FullBatch()), steps=9, step_size=0.01, noise_std=1.0
    )
    assert rounding_of(run, (D,))[0] == math.inf


AWAY = np.array([0.5, -2.0, 1e-9, 0.0, 3.0])


def on_simplex(x, total):
    """By bisection for the threshold."""
    low, high = max(x) - total, max(x)
    for _ in range(80):
        middle = (low + high) / 2
        over = sum(max(one - middle, 0) for one in x) > total
        low, high = (middle, high) if over else (low, middle)
    return [max(one - high, mpmath.mpf(0)) for one in x]


@every(
    "chosen",
    [
        *(prox.l1(0.3), prox.l2(0.3), prox.elastic_net(0.2, 0.4), prox.ball(0.7)),
        *(prox.ball(0.7, AWAY), prox.box(-0.2, 0.3), prox.simplex(1.7)),
        *(prox.halfspace(AWAY, 0.3), prox.halfspace(AWAY, -40.0)),
    ],
)
def test_maps_are_no_farther_from_exact_ones_than_bounded(chosen):
    from pabi.execute.computed_steps import _of_the_map

    step = 0.5

    def exact(x):
        x = [mpmath.mpf(one) for one in x]

        def soft(t):
            return [one - min(max(one, -t), t) for one in x]

        match chosen:
            case prox.l1(strength=s):
                return soft(mpmath.mpf(step) * mpmath.mpf(s))
            case prox.l2(strength=s):
                return [one / (1 + mpmath.mpf(step) * mpmath.mpf(s)) for one in x]
            case prox.elastic_net(l1=a, l2=b):
                return [
                    one / (1 + mpmath.mpf(step) * mpmath.mpf(b))
                    for one in soft(mpmath.mpf(step) * mpmath.mpf(a))
                ]
            case prox.ball(radius=r, center=c):
                c = [mpmath.mpf(one) for one in (np.zeros(D) if c is None else c).tolist()]
                offset = [one - two for one, two in zip(x, c, strict=True)]
                length = mpmath.sqrt(sum(one * one for one in offset))
                share = min(1, mpmath.mpf(r) / length)
                return [two + one * share for one, two in zip(offset, c, strict=True)]
            case prox.simplex(total=total):
                return on_simplex(x, mpmath.mpf(total))
            case prox.halfspace(normal=n, offset=b):
                n = [mpmath.mpf(one) for one in n.tolist()]
                over = max(sum(a * c for a, c in zip(n, x, strict=True)) - mpmath.mpf(b), 0)
                away = over / sum(one * one for one in n)
                return [one - away * two for one, two in zip(x, n, strict=True)]
            case _:
                return [min(max(one, mpmath.mpf(-0.2)), mpmath.mpf(0.3)) for one in x]

    ties = [np.full(D, 0.3), -0.4 * np.arange(D), [0.3, *[-1.4] * (D - 1)]]
    for scale in (0.1, 1.0, 1e6):
        for x in [*RNG.normal(scale=scale, size=(20, D)), *map(np.array, ties)]:
            size = float(np.linalg.norm(x)) * (1.0 + 1e-12)
            pairs = zip(chosen(x, step).tolist(), exact(x.tolist()), strict=True)
            gap = [mpmath.mpf(a) - b for a, b in pairs]
            off = mpmath.sqrt(sum(one * one for one in gap))
            assert off <= _of_the_map(chosen, np.float64(step), size, (D,))


def thresholded(x, threshold):
    left, values, right = mpmath.svd_r(mpmath.matrix(x.tolist()))
    return left * mpmath.diag([max(one - threshold, 0) for one in values]) * right


def alike(x):
    return np.column_stack([x, x[:, :1], 0.0 * x[:, :1]])


def skewed(*parts):
    """Decompositions that are none, as far as the last of them can be told."""

    def svd(x, full_matrices):
        left, values, right = SVD(x, full_matrices=full_matrices)
        if "fails" in parts:
            raise np.linalg.LinAlgError
        left = left * (1.0 + 1e-9 * ("longer" in parts))
        values = values + 1e-9 * ("moved" in parts)
        return left, values, right[::-1] if "turned" in parts else right

    return svd


SVD = np.linalg.svd


@every("wrong", [(), ("fails",), ("longer",), ("moved",), ("turned",)])
@every("shape", [(1, 1), (1, 4), (3, 3), (5, 2)])
def test_singular_values_are_thresholded_as_near_as_bounded(monkeypatch, shape, wrong):
    """Whoever decomposes: what is wrong is found, and done again in many digits."""
    rng, map_of = np.random.default_rng(3), prox.nuclear_norm(0.6)
    monkeypatch.setattr(np.linalg, "svd", skewed(*wrong))
    again, by_rotations = [], rounding._by_rotations
    monkeypatch.setattr(rounding, "_by_rotations", lambda *a: again.append(1) or by_rotations(*a))
    for scale in (1e-200, 1.0, 1e200):
        for x in (rng.normal(size=shape), np.ones(shape), alike(rng.normal(size=shape))):
            with mpmath.workdps(60):
                exact = thresholded(x * scale, mpmath.mpf(0.5 * scale) * mpmath.mpf(0.6))
                gap = mpmath.norm(mpmath.matrix(map_of(x * scale, 0.5 * scale).tolist()) - exact)
                least = rounding.thresholds_off(*x.shape)
                assert gap <= least * mpmath.norm(mpmath.matrix((x * scale).tolist()))
    assert bool(again) == bool(wrong) or (wrong == ("turned",) and 1 in shape)


def test_parts_of_a_run_have_the_noise_of_one_guarantee(tmp_path):
    """A part that was accounted otherwise, and so had other noise, is another run's."""
    run, path = (
        run_of(Loss.logistic(1.0), steps=60, noise_std=0.6, batches=Cyclic(2)),
        tmp_path / "run",
    )

    def own(x, rows):
        return GRADIENTS(x, rows)

    def broken(x, rows):
        if path.exists():
            raise Crash
        return own(x, rows)

    with pytest.raises(Crash):
        train(run, broken, np.zeros(D), checkpoint=path, checkpoint_seconds=0.0)
    refused(
        "resume", train, run, GRADIENTS, np.zeros(D), resume=path
    )  # whose errors are proven, and less
    again = train(run, own, np.zeros(D), resume=path, delta=1e-4).guarantee  # of the same noise
    assert ACCURATE in again.assumptions


def test_gradients_of_a_loss_of_which_facts_are_stated_are_not_the_runs_own():
    """Nothing says what theirs are off by."""
    facts = Loss.convex(0.25, gradient_bound=1.0, glm=True)
    hidden = {"steps": 60, "noise_std": 0.6, "batches": Cyclic(2), "clip_norm": 0.5}
    assert ACCURATE in trained(run_of(facts, **hidden)).guarantee.assumptions
    assert ACCURATE not in trained(run_of(Loss.logistic(1.0), **hidden)).guarantee.assumptions

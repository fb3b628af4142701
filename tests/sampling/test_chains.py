"""The sampler does what the description says, and keeps to itself what it must."""

import itertools
import re
import warnings
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi import prox
from pabi.execute.computed_steps import ACCURATE
from pabi.learn import train
from pabi.mixing import outlook
from pabi.numbers.errors import NotApplicable, PrivacyWarning, SamplingWarning
from pabi.sampling import Draws, diffusion, from_log_density, langevin, mean_gradient
from pabi.sampling.chains import TAKEN, each_chain
from pabi.tradeoff.guarantee import TESTING
from support.every_case import every, refused
from support.execution import OrdinaryNoise

from .laws import Recorder

rng = np.random.default_rng(7)
CENTRES = rng.normal(size=(10, 3))
LOSS = pabi.Loss.unknown(gradient_bound=5.0)


class Mirrored(np.random.Generator):
    """The same draws with the signs of the noise turned: the trainer adds it to gradients that are shown."""

    def __init__(self, seed):
        super().__init__(np.random.PCG64(seed))

    def standard_normal(self, size=None, *args, **kwargs):
        return -super().standard_normal(size)


def small(loss=LOSS, **fields):
    given = {"n": 10, "inverse_temperature": 3.0, "step_size": 0.01, "steps": 6, **fields}
    return pabi.LangevinChain(loss, **given)


def quadratic(x, rows=slice(None)):
    """Of the mean of ½‖x − a_i‖²; sums over batches are divided by 4."""
    part = CENTRES[rows]
    return np.sum(x[:, None, :] - part, axis=1) / (10 if isinstance(rows, slice) else 4)


def by_hand(chain, x0, noise):
    """Every iterate of every chain, one chain and one step at a time, in plain arithmetic."""
    h, paths = chain.step_size * chain.inverse_temperature, []
    for c in range(chain.chains):
        x, path = np.array(np.broadcast_to(x0, (chain.chains, 3))[c]), []
        for k in range(chain.steps):
            rows = None
            if chain.batches.kind == "cyclic":
                rows = [range(0, 4), range(4, 8), range(8, 10)][k % 3]
            chosen = CENTRES if rows is None else CENTRES[list(rows)]
            gradient = sum(x - a for a in chosen) / (10 if rows is None else 4)
            x = x - h * gradient + (2 * chain.step_size) ** 0.5 * noise[k][c]
            if chain.prox is not None:
                x = chain.prox(x, h)
            path.append(x)
        paths.append(path)
    return np.array(paths)


# That maps act on all chains at once as on each is tested below.
PROXES = [None, pabi.prox.ball(0.3, center=[0.1, 0.0, -0.1]), pabi.prox.l1(2.0)]
PROXES += [lambda x, step: x / max(1.0, float(np.linalg.norm(x)) / (4 * step))]


class Plain:
    """A proximal map that only knows how to treat one point."""

    diameter = None

    def __init__(self, function):
        self._function = function

    def __call__(self, x, step_size):
        assert x.shape == (3,)
        return self._function(x, step_size)


@every("prox", PROXES)
@every("release", ["last", "path"])
@every("batches", [pabi.FullBatch(), pabi.Cyclic(4)])
def test_steps_are_those_of_the_description(monkeypatch, prox, release, batches):
    """Four chains at once, from starts of their own."""
    monkeypatch.setattr("pabi.sampling.chains.StepNoise", OrdinaryNoise)
    if prox is not None and not isinstance(prox, pabi.prox.ProximalMap):
        prox = Plain(prox)
    chain = small(prox=prox, release=release, batches=batches, chains=4)
    x0 = np.array([0.2, -0.4, 0.1]) * np.array([[1.0], [-2.0], [0.0], [5.0]])
    recorder = Recorder()
    draws = langevin(chain, quadratic, x0, random_state=recorder, delta=0.01)
    wanted = by_hand(chain, x0, recorder.calls)
    if release == "last":
        wanted = wanted[:, -1:]
    assert draws.values.shape == wanted.shape
    np.testing.assert_allclose(draws.values, wanted, rtol=1e-12, atol=1e-13)
    assert len(recorder.calls) == chain.steps


def test_the_noise_executed_is_the_noise_accounted(monkeypatch):
    """In doubles it is never below, and the accountant's never above √(2η)."""
    found = []

    def values(walks, generator):
        found.append((walks.sizes, walks.noise_std))
        return np.zeros((1, 1))

    monkeypatch.setattr("pabi.sampling.chains.Walks.values", values)
    for eta, beta in itertools.product(np.geomspace(1e-9, 2e4, 30).tolist(), (1 / 3, 1.0, 1e5)):
        chain = small(step_size=eta, inverse_temperature=beta, steps=2)
        langevin(chain, lambda x: x, 0.0, random_state=0, delta=0.01)
        sizes, noise = found.pop()
        assert list(sizes) == [chain.gradient_step] * 2
        accounted = Fraction(chain.run.step_size) * Fraction(chain.run.noise_std)
        # Either is next to √(2η), the one above and the other below.
        assert accounted <= Fraction(noise) <= accounted * (1 + Fraction(1, 2**52)) ** 2
        assert accounted**2 <= 2 * Fraction(eta)
        assert float(accounted) == pytest.approx((2 * eta) ** 0.5, rel=1e-15)


SHUFFLED = [kind(4) for kind in (pabi.Cyclic, pabi.ShuffleOnce, pabi.Reshuffle, pabi.FixedSize)]


@every("batches", [*SHUFFLED, pabi.Poisson(2), pabi.Poisson(4, cap=4)])
def test_batches_are_drawn_as_the_trainer_draws_them(batches, monkeypatch):
    """The same generator gives the trainer's last iterate, empty batches included."""
    cost = small().guarantee(0.01)
    for module in ("execute.engine", "sampling.chains"):
        monkeypatch.setattr(f"pabi.{module}.StepNoise", OrdinaryNoise)
    for kind in (pabi.LangevinChain, pabi.NoisySGD):
        monkeypatch.setattr(kind, "guarantee", lambda self, delta: cost)
    chain, asked = small(LOSS.with_l2(0.7), batches=batches, steps=25), []

    def each(x, rows):
        return np.tanh(x - CENTRES[rows])

    def gradient(x, rows):
        assert rows.size
        asked.append(rows.tolist())
        return np.sum(each(x[:, None, :], rows), axis=1) / batches.size + 0.7 * x

    x0 = np.array([0.2, -0.4, 0.1])
    draws = langevin(chain, gradient, x0, random_state=11, delta=0.01)
    trained = train(chain.run, each, x0, Mirrored(11), delta=0.01)
    np.testing.assert_allclose(draws.values[0, 0], trained.x, rtol=1e-12, atol=1e-13)
    assert len(asked) < 25 or batches.kind != "poisson"


@every("thin", [1, 2, 3, 4, 6])
def test_thinning_counts_back_from_the_last(thin):
    chain = small(release="path")
    everything = langevin(chain, quadratic, np.zeros(3), random_state=5, delta=0.01)
    thinned = langevin(chain, quadratic, np.zeros(3), thin, 5, delta=0.01)
    kept = everything.values[:, ::-1][:, ::thin][:, ::-1]
    np.testing.assert_array_equal(thinned.values, kept)
    assert thinned.guarantee.epsilon(0.01) == everything.guarantee.epsilon(0.01)


def test_points_of_any_shape():
    for shape in ((), (4,), (2, 3)):
        seen = set()

        def gradient(x, seen=seen):
            seen.add(x.shape)
            return x

        x = langevin(small(chains=7), gradient, np.zeros(shape), random_state=0, delta=0.1)
        assert x.values.shape == (7, 1, *shape)
        assert seen == {(7, *shape)}
    each, free = np.arange(14.0).reshape(7, 2), small(chains=7, step_size=1e-12, steps=1)
    x = langevin(free, np.zeros_like, each, random_state=0, delta=0.1)
    np.testing.assert_allclose(x.values[:, 0], each, atol=1e-4)


def test_the_guarantee_is_the_chains():
    chain = small(pabi.Loss.logistic(1.0, l2=0.1), n=1000, steps=1500, chains=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draws = langevin(chain, lambda x: x, np.zeros(2))
    wanted = chain.guarantee()
    assert 1.0 - 1e-5 <= draws.guarantee.epsilon(1e-5) / wanted.epsilon(1e-5) <= 1.0
    assert draws.guarantee.certificate is not None
    assert draws.guarantee.assumptions == (*wanted.assumptions, ACCURATE, TAKEN)
    # A little warmer, for computed steps that are not quite the described ones.
    assert 0.0 < draws.chain.rounding < 1e-8
    assert 1.0 - 1e-5 <= draws.chain.inverse_temperature / chain.inverse_temperature <= 1.0
    described = {"rounding": 0.0, "inverse_temperature": chain.inverse_temperature}
    assert replace(draws.chain, **described) == chain


def test_a_seed_is_for_tests_only():
    for seed in (3, np.random.default_rng(3)):
        with pytest.warns(PrivacyWarning, match="reproducible"):
            draws = langevin(small(), quadratic, np.zeros(3), random_state=seed, delta=0.01)
        assert draws.guarantee.assumptions[0] == TESTING
        assert draws.guarantee.certificate is None
    shape = draws.values.shape
    assert repr(draws) == f"Draws({draws.guarantee!r}, values of shape {shape})"


def test_our_own_gradient_is_checked_against_the_description():
    X, y = rng.normal(size=(20, 2)), rng.integers(0, 2, 20)
    loss = pabi.Loss.logistic(1.0, l2=0.5)
    chain = pabi.LangevinChain(loss, n=20, inverse_temperature=20.0, step_size=1e-3, steps=3)
    draws = langevin(chain, mean_gradient(X, y, loss), np.zeros(2), random_state=0, delta=0.01)
    assert TAKEN not in draws.guarantee.assumptions
    by_name = mean_gradient(X, y, "logistic", 0.5)
    convex = replace(chain, loss=pabi.Loss.convex(0.25, gradient_bound=1.0, l2=0.5))
    with pytest.warns(PrivacyWarning, match="may have norm inf, and at most 1.0"):
        draws = langevin(convex, by_name, np.zeros(2), random_state=0, delta=0.01)
    assert TAKEN in draws.guarantee.assumptions
    for gradient, field in (
        (by_name, "model"),  # whose rows are as long as they are
        (mean_gradient(X, y, pabi.Loss.huber(1.0, 1.0, l2=0.5)), "model"),
        (mean_gradient(X[:-1], y[:-1], loss), "n"),
        (mean_gradient(X, y, "logistic", 0.4), "l2"),
        (mean_gradient(X, y, pabi.Loss.logistic(2.0, l2=0.5)), "model"),
        (mean_gradient(X, y, loss, size=5), "size"),
    ):
        refused(field, langevin, chain, gradient, np.zeros(2), random_state=0, delta=0.01)


def test_a_start_of_another_shape_is_told_which_would_do():
    loss, labels = pabi.Loss.logistic(1.0, l2=0.5), np.arange(20) % 2
    chain = pabi.LangevinChain(loss, 20, 20.0, step_size=1e-3, steps=3, chains=4)
    gradient = mean_gradient(rng.normal(size=(20, 2)), labels, loss)
    message = refused("x0", langevin, chain, gradient, np.zeros((3, 2)))
    assert "(2,) or (4, 2), one a chain" in message


def test_words_of_other_samplers_are_answered():
    for keyword, value, mentioned in (
        ("draws", 10, "chains=10"),
        ("chains", 10, "replace(chain, chains=10)"),
        ("warmup", 50, "discard="),
        ("seed", 3, "random_state"),
    ):
        call = langevin, small(), quadratic, np.zeros(3)
        assert mentioned in refused(keyword, *call, **{keyword: value})
    prior = {"n": 9, "gradient_bound": 1.0, "curvature": (0.0, 1.0), "step_size": 0.1, "steps": 3}
    message = refused("chains", from_log_density, lambda x, rows: x, **prior, chains=4)
    assert "replace(posterior.chain, chains=4)" in message


def test_last_iterates_are_all_that_is_left():
    paths = []

    def gradient(x):
        paths.append(x.copy())
        return x

    chain = small(chains=3, steps=50)
    draws = langevin(chain, gradient, np.ones(2), random_state=1, delta=0.01)
    assert [f.name for f in fields(Draws)] == ["values", "guarantee", "chain", "release"]
    assert draws.values.base is None
    assert not draws.values.flags.writeable
    assert not np.isin(draws.values, np.concatenate(paths).ravel()).any()


def test_gradients_cannot_write_to_the_chain():
    def gradient(x):
        x += 1.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        langevin(small(), gradient, np.zeros(2), random_state=0, delta=0.01)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_nothing_is_printed_or_warned_of(capfd):
    steep, x0 = lambda x: np.clip(np.exp(x * 1e300), 0.0, 1e300) / 1e300, np.array([1.0, -1.0])
    langevin(small(steps=3, step_size=1e3), steep, x0, random_state=0, delta=0.01)
    assert capfd.readouterr() == ("", "")


def test_the_data_is_not_touched_before_the_cost_is_known(monkeypatch):
    def no(self, delta):
        raise NotApplicable("no guarantee")

    monkeypatch.setattr(pabi.LangevinChain, "guarantee", no)
    with pytest.raises(NotApplicable):
        langevin(small(), untouched, np.zeros(2), random_state=0)


# How far draws are from their target, said before the data is touched.

POSTERIOR = pabi.LangevinChain(
    pabi.Loss.logistic(1.0, l2=0.01),
    n=1000,
    inverse_temperature=1000.0,
    step_size=1e-3,
    steps=482,
    prox=pabi.prox.ball(4.0),
)


def said(chain):
    """What is warned of; every warning is one line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SamplingWarning)
        langevin(chain, lambda x: x, np.zeros(2))
    assert all("\n" not in str(one.message) and one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


def test_draws_that_may_be_far_from_their_target_are_warned_of():
    assert said(POSTERIOR) == []
    short = replace(POSTERIOR, steps=481)
    coarse = replace(POSTERIOR, step_size=1.5e-3)
    for chain in (short, coarse):
        assert said(chain) == [outlook(chain, np.zeros(2)).warning]
    unknown = said(replace(POSTERIOR, loss=pabi.Loss.nonconvex(0.2, gradient_bound=1.0)))
    assert unknown[0].startswith("how far draws are from their target is not known: no curvature")
    several = replace(POSTERIOR, prox=pabi.prox.ball(1.0), steps=400, chains=2)
    starts = np.array([np.zeros(2), [4.0, 0.0]])
    with pytest.warns(SamplingWarning, match=re.escape(outlook(several, starts).warning)):
        langevin(several, lambda x: x, starts)


def untouched(x):
    pytest.fail("the data was touched")


def test_where_warnings_are_errors_nothing_is_charged_and_no_data_touched(tmp_path):
    ledger = pabi.Ledger(tmp_path / "ledger", epsilon=10.0, delta=1e-4)
    short = replace(POSTERIOR, steps=100)
    with warnings.catch_warnings(), pytest.raises(SamplingWarning):
        warnings.simplefilter("error", SamplingWarning)
        langevin(short, untouched, np.zeros(2), ledger=ledger)
    assert not ledger.report().entries


def test_a_path_that_costs_no_more_is_offered_once():
    loss = pabi.Loss.logistic(1.0, l2=1e-4)
    chain = replace(POSTERIOR, loss=loss, step_size=1e-4, steps=100)
    both = said(chain)
    assert len(both) == 2
    assert both[1] == outlook(chain).offer
    assert len(said(replace(chain, release="path"))) == 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", SamplingWarning)
        for _ in range(3):
            langevin(chain, lambda x: x, np.zeros(2))
    assert sum(str(one.message) == both[1] for one in caught) <= 1


def test_a_diffusion_need_not_settle():
    described = pabi.LangevinDiffusion(
        POSTERIOR.loss, n=1000, inverse_temperature=1000.0, time=0.01, diameter=8.0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", SamplingWarning)
        diffusion(described, lambda x: x, np.zeros(2), POSTERIOR.prox, steps=10)


# Refusals.


def refusals():
    """(field, changes of the chain, arguments)"""
    yield "diameter", {"diameter": 2.0}, {}
    yield "diameter", {"diameter": 0.9, "prox": pabi.prox.ball(0.5)}, {}
    yield "thin", {}, {"thin": 2}
    for thin in (0, 7):
        yield "thin", {"release": "path"}, {"thin": thin}
    for x0 in ([np.nan, 0.0], "here"):
        yield "x0", {}, {"x0": x0}
    for other in (pabi.prox.box([0.0], [1.0]), pabi.prox.ball(1.0, center=[0.0, 0.0, 1.0])):
        yield "prox", {"prox": other}, {}
    for gradient in (3, lambda x: x * np.inf, lambda x: x + 1j, lambda x: "?"):
        yield "gradient", {}, {"gradient": gradient}
    plain = {"prox": Plain(lambda x, step: x)}
    yield "gradient", plain, {"x0": np.zeros(3), "gradient": lambda x: x[:, :2]}
    yield "random_state", {}, {"random_state": "seed"}
    yield "chain", {}, {"chain": small().run}


@every("field, change, arguments", refusals())
def test_refusals_are_one_line_and_name_the_field(field, change, arguments):
    given = {"gradient": lambda x: x, "x0": np.ones(2), "random_state": 0, "delta": 0.01}
    refused(field, langevin, **{"chain": small(**change), **given, **arguments})


def test_a_diameter_that_the_prox_enforces_is_fine():
    chain = small(diameter=1.0, prox=pabi.prox.ball(0.5))
    draws = langevin(chain, quadratic, np.zeros(3), random_state=0, delta=0.01)
    assert np.linalg.norm(draws.values[0, 0]) <= 0.5


# Proximal maps act on each chain by itself, and as the maps of one point do.


MAPS = [
    (None, (3,)),
    (prox.l1(0.7), (3,)),
    (prox.l2(0.7), (2, 3)),
    (prox.elastic_net(0.7, 0.2), (3,)),
    (prox.ball(1.0), (3,)),
    (prox.ball(1.0), ()),
    (prox.ball(1.0), (2, 2)),
    (prox.ball(0.5, center=[3.0, -1e8, 0.1]), (3,)),
    (prox.box(-1.0, 2.0), (3,)),
    (prox.box(-1.0, [2.0, 3.0, np.inf]), (3,)),
    (prox.box(0.0, 1.0, shape=(2, 2)), (2, 2)),
    (prox.simplex(), (5,)),
    (prox.simplex(3.0), (2, 2)),
    (prox.halfspace([1.0, 2.0, -0.5], 0.3), (3,)),
    (prox.halfspace([1.0, 2.0, -0.5], 0.0), (3,)),
    (prox.halfspace([[1.0], [-3.0]], -2.0), (2, 1)),
    (prox.nuclear_norm(0.4), (2, 3)),
    (lambda x, step: np.tanh(x) * step, (3,)),
]


def points(shape, rng):
    """Ordinary points, tiny and huge ones, corners, and the origin."""
    ordinary = rng.normal(size=(40, *shape)) * np.exp(rng.normal(size=(40, *(1,) * len(shape))))
    scaled = [ordinary[:4] * s for s in (1e-300, 1e-8, 1e8, 1e200, 1e307)]
    special = [np.zeros((1, *shape)), np.ones((1, *shape)), np.full((1, *shape), -np.inf)]
    return np.concatenate([ordinary, *scaled, *special])


@every("given, shape", MAPS)
def test_all_at_once_is_one_by_one(given, shape):
    x = points(shape, np.random.default_rng(3))
    kept = x.copy()
    with np.errstate(all="ignore"):
        together = each_chain(given, shape)(x, 0.3)
        alone = np.array([p if given is None else given(p, 0.3) for p in x])
    assert together.shape == x.shape
    np.testing.assert_array_equal(x, kept)
    if given is None:
        np.testing.assert_array_equal(together, x)
    else:
        # Up to the rounding of sums of a few terms, in units of the point or of the set (about 1).
        size = np.array([np.max(np.abs(p)) for p in x]).reshape(-1, *(1,) * len(shape))
        slack = 1000 * 2.0**-52 * np.clip(size, 1.0, np.finfo(float).max)
        assert np.all(np.abs(together - alone) <= slack)


@every("radius, centre", [(1.0, np.zeros(4)), (0.3, [1.0, -2.0, 5.0, 1e6]), (1e-150, np.zeros(4))])
def test_balls_are_never_left(radius, centre):
    x = np.random.default_rng(4).normal(size=(200, 4)) * radius * 1.2 + np.array(centre)
    ball = prox.ball(radius, center=centre if np.any(centre) else None)
    for y in each_chain(ball, (4,))(x, 1.0):
        offsets = [Fraction(a) - Fraction(b) for a, b in zip(y.tolist(), centre, strict=True)]
        assert sum(a**2 for a in offsets) <= Fraction(radius) ** 2


def test_halfspaces_and_simplices_are_never_left():
    rng, normal, offset = np.random.default_rng(5), [1.0, 0.3, -0.7], 0.1

    def level(p):
        return sum(Fraction(n) * Fraction(v) for n, v in zip(normal, p.tolist(), strict=True))

    x = rng.normal(size=(300, 3))
    for a, b in zip(x, each_chain(prox.halfspace(normal, offset), (3,))(x, 1.0), strict=True):
        assert level(b) <= Fraction(offset)
        assert level(a) > Fraction(offset) or np.array_equal(a, b)
    x = rng.normal(size=(200, 7)) * 3
    for y in each_chain(prox.simplex(2.0), (7,))(x, 1.0):
        assert np.all(y >= 0.0)
        assert 2 - Fraction(1, 10**13) <= sum(map(Fraction, y.tolist())) <= 2


def test_another_shape_is_refused():
    centred, box = prox.ball(1.0, center=[0.0, 0.0]), prox.box(0.0, [1.0, 2.0])
    for given in (centred, box, prox.halfspace([1.0], 1.0)):
        assert "expected one for points of shape" in refused("prox", each_chain, given, (3,))
    refused("prox", each_chain(lambda x, step: x[:1], (3,)), np.zeros((2, 3)), 1.0)

"""What can be read from a guarantee, and that every reading is of the same trade-off function."""

import dataclasses
import functools
import json
import math
import warnings

import mpmath
import numpy as np
import pytest

import pabi
from pabi import Cyclic, FullBatch, Guarantee, Loss, NoisySGD, Reshuffle, ShuffleOnce
from pabi.showing import shown
from pabi.tradeoff import ApproxDP, Best, Gaussian, Mixture
from support.every_case import every, refused, refuses

DELTA = 1e-4


def make(**changes):
    fields = {"n": 100, "batches": Cyclic(size=10), "epochs": 8, "step_size": 0.1, "noise_std": 1.0}
    fields |= {"loss": Loss.convex(smoothness=1.0, l2=0.05), "gradient_sensitivity": 4.0}
    return NoisySGD(**{**fields, **changes})


def iteration(slope=1.0, s=1.0, noise=1.0, steps=6, **changes):
    return pabi.NoisyIteration(slope, s, noise, steps=steps, **changes)


KINDS = {
    "gaussian": make(),
    "tight": make(noise_std=30.0),
    "loose": make(noise_std=0.02),
    "mixture": make(batches=ShuffleOnce(15)),
    "reshuffled": make(batches=Reshuffle(25)),
    "composition": make(release="path"),
}


@functools.cache
def guaranteed(name):
    return KINDS[name].guarantee(delta=DELTA)


every_kind = every("name", KINDS)


@every_kind
def test_they_are_those_of_the_curve(name):
    """Which are tested with the curves."""
    g = guaranteed(name)
    epsilons, levels = np.array([-1.0, 0.0, 0.5, 3.0]), np.array([0.0, 1e-6, 0.1, 0.5, 1.0])
    assert np.array_equal(g.delta(epsilons), g.curve.delta(epsilons))
    assert np.array_equal(g.tradeoff(levels), g.curve(levels))
    assert (g.delta(0.5), g.tradeoff(0.5)) == (g.curve.delta(0.5), g.curve(0.5))
    assert isinstance(g.delta(0.5), float)
    assert isinstance(g.tradeoff(0.5), float)
    for delta in (1e-9, 1e-3):
        assert g.epsilon(delta) == g.curve.epsilon(delta)
        assert g.epsilon_bounds(delta) == g.curve.epsilon_bounds(delta)
    assert [g.rdp(a) for a in (1.5, 8.0)] == [g.curve.rdp(a) for a in (1.5, 8.0)]
    assert (g.zcdp, g.advantage) == (g.curve.zcdp, g.curve.delta(0.0))
    for bad in (-0.1, 1.0, math.nan, "x", None, True):
        refused("delta", g.epsilon, bad)


@every_kind
def test_attacks_are_read_off_the_curve(name):
    g = guaranteed(name)
    assert g.advantage == g.delta(0.0)
    for fpr in (0.0, 1e-4, 0.1, 0.9):
        assert g.tpr(fpr) == pytest.approx(1.0 - g.tradeoff(fpr), rel=1e-14)
        assert g.tpr(fpr) >= fpr
        assert g.tpr(fpr) - fpr <= g.advantage + 1e-12
    assert g.bayes_success() == pytest.approx(0.5 * (1.0 + g.advantage), rel=1e-12)
    for prior in (0.01, 0.3, 0.8):
        levels = np.linspace(0.0, 1.0, 2001)
        best = np.max(prior * (1.0 - g.tradeoff(levels)) + (1.0 - prior) * (1.0 - levels))
        assert g.bayes_success(prior) >= best - 1e-9
        assert g.bayes_success(prior) <= best + 1e-3
        assert g.bayes_success(prior) >= max(prior, 1.0 - prior)


def test_a_position_is_said_in_the_assumptions():
    g = make().guarantee(delta=DELTA, position=3)
    assert any("batch 3" in a and "no other record" in a for a in g.assumptions)
    assert not any("no other record" in a for a in make().guarantee(delta=DELTA).assumptions)
    for run, bad in (
        (make(), 10),
        (make(batches=FullBatch()), 1),
        (make(batches=Reshuffle(10)), 0),
    ):
        refused("position", run.guarantee, DELTA, position=bad)


def test_a_position_is_shown_wherever_numbers_are():
    """Its numbers are those of some records: what shows them says so, of groups and compositions as well."""
    one = make().guarantee(delta=DELTA, position=3)
    for g in (one, one.for_groups(2), pabi.compose(one, make().guarantee(delta=DELTA))):
        assert "records of batch 3 alone" in str(g)
        assert "records of batch 3 alone" in g._repr_html_()
    assert "alone" not in str(make().guarantee(delta=DELTA))


def test_a_batch_that_never_comes():
    """Three steps of ten batches: a record of the fifth batch is never read."""
    run = make(epochs=None, steps=3)
    assert run.guarantee(delta=DELTA, position=4).mu == 0.0
    assert run.guarantee(delta=DELTA, position=4).epsilon(0.0) == 0.0
    assert run.guarantee(delta=DELTA, position=2).mu > 0.0


def test_a_composition_assumes_what_all_of_its_parts_do():
    a = make(batches=ShuffleOnce(40)).guarantee(delta=DELTA)
    b = make(release="path").guarantee(delta=DELTA)
    both = pabi.compose(a, b)
    assert set(a.assumptions) | set(b.assumptions) <= set(both.assumptions)
    assert any("independent noise" in s for s in both.assumptions)
    assert len(set(both.assumptions)) == len(both.assumptions)


def test_one_order_that_is_used_twice_is_said():
    """The product of two mixtures needs two orders: with one, both releases meet at one place.

    Σ_j w_j δ_{G(√2 μ_j)} is the exact δ of a pair of labelled Gaussians with a common label, and
    exceeds that of the product at large ε. So the assumption has to be said.
    """
    g = make(batches=ShuffleOnce(50), epochs=1, noise_std=0.05).guarantee(delta=DELTA)
    twice = pabi.compose(g, g)
    both = [Gaussian(math.sqrt(2.0) * part.mu) for part in g.curve.parts]
    common = Mixture(both, g.curve.weights)
    assert any(common.delta(e) > twice.delta(e) for e in (1.0, 3.0, 6.0, 10.0))
    added = [s for s in twice.assumptions if s not in g.assumptions]
    assert any("order" in s or "permutation" in s for s in added), added


def test_what_is_not_composed():
    g = make().guarantee(delta=DELTA)
    refused("adjacency", pabi.compose, g, make(adjacency="zero_out").guarantee(delta=DELTA))
    user = dataclasses.replace(g, unit="user")
    for pair in ((g, user), (user, g)):
        refused("unit", pabi.compose, *pair)
    assert pabi.compose(user, user).unit == "user"
    for wrong in ([[g, g]], []):
        with pytest.raises(pabi.InvalidInput):
            pabi.compose(*wrong)


def test_what_else_composes():
    g = make().guarantee(delta=DELTA)
    pure = dataclasses.replace(g, curve=ApproxDP(1.0, 1e-6))
    assert pabi.compose(g, pure).curve == g.curve.compose(pure.curve)
    assert pabi.compose(g, iteration(noise=0.0).guarantee()).mu == math.inf
    bare = iteration(0.9, noise=4.0).guarantee(delta=DELTA)
    assert pabi.verify(pabi.compose(g, bare)).scope == "iteration"


@every("sizes", [(None, None), (None, 40), (40, 30), (40, 30, None)])
def test_compositions_are_verified(sizes):
    runs = [make(batches=ShuffleOnce(x)) if x else make(noise_std=0.4) for x in sizes]
    both = pabi.compose(*(run.guarantee(delta=DELTA) for run in runs))
    assert both.verified
    verdict = pabi.verify(both.to_json())
    assert verdict.ok, verdict.reason
    assert verdict.scope == "run"


def test_nothing_to_prove_with():
    """A run with reproducible noise has no certificate, and nothing composed of it has one."""
    for_test = make().guarantee(delta=DELTA).for_testing()
    assert for_test.certificate is None
    assert "testing only" in for_test.assumptions[0]
    both = pabi.compose(make().guarantee(delta=DELTA), for_test)
    assert both.certificate is None
    assert any("testing only" in s for s in both.assumptions)
    assert not pabi.verify(both).ok
    assert not both.verified


@every_kind
def test_a_guarantee_survives_its_text(name):
    g = guaranteed(name)
    back = Guarantee.from_json(g.to_json())
    assert back.curve == g.curve
    for name in ("mu", "adjacency", "method", "source", "assumptions", "tuned_at", "zcdp"):
        assert getattr(back, name) == getattr(g, name)
    for delta in (1e-9, 1e-3):
        assert back.epsilon(delta) == g.epsilon(delta)
    assert back.tradeoff(0.1) == g.tradeoff(0.1)
    assert back.composition is None  # a note, which nobody reads
    assert back.notes == {"composition": g.composition.to_dict()}
    assert json.loads(back.to_json()) == json.loads(g.to_json())


def test_an_infinite_cost_is_written():
    g = iteration(noise=0.0).guarantee()
    assert g.mu == g.epsilon(1e-5) == math.inf
    assert (g.delta(10.0), g.advantage, g.tradeoff(0.3)) == (1.0, 1.0, 0.0)
    text = g.to_json()
    assert json.loads(text)["mu"] == "inf"
    assert "Infinity" not in text
    assert "NaN" not in text
    back = Guarantee.from_json(text)
    assert back.mu == math.inf
    assert pabi.verify(back).ok
    assert "inf" in str(g)


def test_malformed_tables_are_refused():
    data = make().guarantee(delta=DELTA).to_dict(certificate=True)
    wrong = {"format": ["pabi.certificate", None], "version": [3, None], "tuned_at": ["soon"]}
    wrong |= {"adjacency": ["add_or_remove_one", 3], "assumptions": ["none"], "method": [None]}
    wrong |= {"tradeoff": [None], "mu": [data["mu"] * 0.5, 0.0, "inf", None, "x", []]}
    refuses(lambda **changes: Guarantee.from_dict(data | changes), wrong | {"verified": [True]})
    curves = [{"kind": "gaussian", "mu": x} for x in ([], -1.0)]
    curves += [{"kind": x} for x in ("gaussian", "magic", [])]
    lists = (5, [1.0]), ([1.0], 5), (None, None), ([], []), ([1.0, 2.0], [1.0]), ([{}], [1.0])
    curves += [{"kind": "mixture", "mus": mus, "weights": weights} for mus, weights in lists]
    for curve in curves:
        with pytest.raises(pabi.InvalidInput):
            Guarantee.from_dict(data | {"tradeoff": curve})


def test_what_is_no_json_is_refused():
    long = '{"version": ' + "1" * 5000 + "}"
    for text in ("", "{", "[]", "5", '"x"', "NaN", '{"format": NaN}', "[" * 9999, long):
        with pytest.raises(pabi.InvalidInput):
            Guarantee.from_json(text)


@pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
def test_other_deltas_are_refused_and_large_ones_warned_of():
    """And runs without noise."""
    for batches in (Cyclic(10), ShuffleOnce(10), Reshuffle(10), pabi.Poisson(10)):
        silent = make(noise_std=None, batches=batches, gradient_sensitivity=None, clip_norm=1.0)
        refused("noise_std", silent.guarantee, DELTA)
    for delta in (-1.0, 1.0, 2.0, math.nan, "0.1", None, True):
        refused("delta", make().guarantee, delta=delta)
    for delta, warned in ((0.01, 0), (0.011, 1), (0.5, 1)):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            make().guarantee(delta=delta)
        assert [w.category for w in seen] == [pabi.PrivacyWarning] * warned


@pytest.mark.parametrize(
    "changes",
    [{"update": "other"}, {"release": "path"}, {"loss": Loss.unknown()}],
    ids=["update", "release", "loss"],
)
@every("batches", [Cyclic(10), ShuffleOnce(10), Reshuffle(10), FullBatch()])
def test_without_moduli_composition_is_the_method(changes, batches):
    g = make(batches=batches, **changes).guarantee(delta=DELTA)
    assert g.method == "composition"
    size = 100 if batches == FullBatch() else 10
    assert g.mu == pytest.approx(math.sqrt(8) * 4.0 / size, rel=1e-12)
    assert not any("last iterate" in s for s in g.assumptions)


def test_assumptions_of_an_iteration():
    g = iteration(0.9, noise=2.0, steps=40, diameter=0.75, start=0.5).guarantee(delta=DELTA)
    for words in ("worst record", "diameter 0.75", "at most 0.5 apart", "only the last iterate"):
        assert any(words in sentence for sentence in g.assumptions)


def guarded(run, **keywords):
    """The guarantee, with numpy's warnings as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return run.guarantee(**keywords)


FULL, ALTERNATING = np.full(80, 1.0), np.where(np.arange(80) % 7 == 0, 1.0, 0.5)
LARGE, QUADRATIC = np.linspace(1e299, 1e300, 80), Loss.strongly_convex(1.0, 1.0)
UNDERFLOWS = {"gradient_sensitivity": 1e-100, "noise_std": 1e70}
EXTREMES = {
    "sensitivity": {"gradient_sensitivity": 1e300},
    "sensitivity, little noise": {"gradient_sensitivity": 1e300, "noise_std": 1e-300},
    "little noise": {"noise_std": 1e-300},
    "step sizes": {"step_size": 1e300},
    "step sizes on a diameter": {"step_size": 1e300, "diameter": 1.0},
    "step sizes and curvature": {"step_size": 1e300, "loss": Loss.convex(1e300)},
    "step sizes and l2": {"step_size": 1e300, "loss": Loss.convex(1.0, l2=1e300)},
    "step sizes, written out": {"step_size": LARGE},
    "step sizes, written out, on a diameter": {"step_size": LARGE, "diameter": 1.0},
    "everything": {"step_size": 1e300 * FULL, "gradient_sensitivity": 1e300, "noise_std": 1e300},
    "noise, written out": {"noise_std": 1e-300 * FULL, "gradient_sensitivity": 1e300},
    "tiny steps": {"step_size": 1e-300},
    "tiny steps, tiny noise": {"step_size": 1e-200, "noise_std": 1e-200},
    "least steps": {"step_size": 5e-324},
    "expansive": {"loss": Loss.nonconvex(1e5), "epochs": 100},
    "expansive, written out": {"loss": Loss.nonconvex(1e5), "step_size": 10.0 * FULL},
    "slope zero": {"loss": QUADRATIC, "step_size": 1.0},
    "slope zero at times": {"loss": QUADRATIC, "step_size": ALTERNATING},
    "much noise": {"noise_std": 1e300},
    "no sensitivity to speak of": {"gradient_sensitivity": 1e-300, "noise_std": 1e300},
    "a square that underflows": UNDERFLOWS,
    "a square that underflows, path": {**UNDERFLOWS, "release": "path"},
}


# On a diameter every position is solved in many digits: two of the four kinds of batches take seconds.
SLOW = {("cyclic", "step sizes, written out, on a diameter")}
SLOW |= {("shuffle_once", name) for name in EXTREMES if name.endswith("on a diameter")}
OVERFLOWS = [
    pytest.param(
        *(batches, name),
        id=f"{batches.kind}-{name}",
        marks=pytest.mark.nightly if (batches.kind, name) in SLOW else (),
    )
    for batches in (Cyclic(10), ShuffleOnce(15), Reshuffle(20), FullBatch())
    for name in EXTREMES
]


# Results may be ∞ or too large, never an exception and never too small.


@pytest.mark.parametrize(("batches", "name"), OVERFLOWS)
def test_extreme_runs_never_cost_too_little(name, batches):
    changes = EXTREMES[name]
    if any(isinstance(x, np.ndarray) for x in changes.values()):
        changes = {**changes, "epochs": None, "steps": 80}
    run = make(batches=batches, **changes)
    g = guarded(run, delta=DELTA)
    # A record of the last batch that was read cannot cost less than that one step, unless a
    # later step forgets it: (s/σ) of the last step is a lower bound on the worst μ.
    last = np.ravel(np.broadcast_to(run.gradient_noise_std, run.steps))[-1]
    ratio = mpmath.mpf(run.sensitivity) / run.batch_size / mpmath.mpf(float(last))
    worst = max(part.mu for part in getattr(g.curve, "parts", [g.curve]))
    assert worst >= ratio * (1 - mpmath.mpf(10) ** -12)
    assert not math.isnan(g.epsilon(DELTA))


@every("noise", [5e-324, 1e-160, 1.0, 1e160])
@every("slope", [0.0, 1e-300, 0.5, 1.0, 1e300])
@every("written", [False, True])
def test_extreme_iterations_never_cost_too_little(noise, slope, written):
    for sensitivity in (1e-320, 1e-200, 1e-160, 1.2e154, 1e160, 1e300):
        g = guarded(iteration(np.full(6, slope) if written else slope, sensitivity, noise))
        least = mpmath.mpf(sensitivity) / mpmath.mpf(noise)
        assert g.mu >= least * (1 - mpmath.mpf(10) ** -12), sensitivity


@every("written", [False, True])
@every("scale", [2.81e-162, 3.0e-162, 7e-162, 1.3e-161, 1e-155, 1.0, 1e150])
def test_squares_that_lose_their_digits(scale, written):
    """X_t = X_0 + Σ (s + Z_k), Z_k ~ N(0, s²): t steps are exactly G(√t), whatever the unit."""
    g = iteration(np.ones(6) if written else 1.0, scale, scale).guarantee()
    assert g.mu**2 >= 6.0 * (1 - 1e-15)
    assert g.mu == pytest.approx(math.sqrt(6.0), rel=1e-11)


@every("batches", [Cyclic(10), ShuffleOnce(10), Reshuffle(10)])
@every("epochs", [1e12, 1e16])
def test_many_epochs(batches, epochs):
    g = guarded(make(batches=batches, epochs=epochs), delta=DELTA)
    assert g.epsilon(DELTA) > 0.0


def test_a_replaced_curve_is_read_anew():
    """No reading of the old curve may answer for the new one."""
    g = make().guarantee(delta=DELTA)
    before = g.epsilon(DELTA)
    worse = dataclasses.replace(g, curve=pabi.tradeoff.Gaussian(2.0 * g.mu))
    assert worse.epsilon(DELTA) == worse.curve.epsilon(DELTA) > before
    assert g.epsilon(DELTA) == before


def test_short_in_a_console():
    """However large the curve is."""
    g = make().guarantee(delta=DELTA)
    many = make(batches=ShuffleOnce(1)).guarantee(delta=DELTA).curve
    best = dataclasses.replace(g, curve=Best((many, ApproxDP(0.5, 1e-9))))
    assert len(repr(best.curve)) > 2000
    for guarantee in (*map(guaranteed, KINDS), best):
        for text in (str(guarantee), repr(guarantee)):
            assert len(text) < 250
            assert "\n" not in text
            assert shown(guarantee.epsilon(DELTA)) in text


def test_it_is_shown_at_the_delta_that_was_asked_for():
    assert "ε = inf at δ = 0 (" in str(make().guarantee(0))
    pure = dataclasses.replace(make().guarantee(0), curve=pabi.tradeoff.Laplace(0.5))
    assert "ε = 0.5 at δ = 0 (" in str(pure)


@every_kind
def test_a_table_with_the_assumptions_folded(name):
    g = guaranteed(name)
    html = g._repr_html_()
    assert f"<td>{shown(g.epsilon(DELTA))}</td>" in html
    assert f"<summary>{len(g.assumptions)} assumptions</summary>" in html
    assert html.count("<li>") == len(g.assumptions)
    assert f"<td>{'none' if g.mu is None else shown(g.mu)}</td>" in html
    assert "testing only" not in html
    assert "testing only" in g.for_testing()._repr_html_()
    said = g.assuming("<script>alert(1)</script>")._repr_html_()  # as a file may
    assert "<script>" not in said
    assert "&lt;script&gt;" in said

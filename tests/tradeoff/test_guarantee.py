"""What can be read from a guarantee, and that every reading is of the same trade-off function.

Truth is the Gaussian pair (N(0, 1), N(μ, 1)) evaluated with mpmath, and mixtures of it.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import warnings

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

import pabi
from pabi import (
    Cyclic,
    FullBatch,
    Guarantee,
    InvalidInput,
    Loss,
    NoisyIteration,
    NoisySGD,
    PrivacyWarning,
    Reshuffle,
    ShuffleOnce,
)
from pabi.showing import shown
from pabi.tradeoff import ApproxDP, Best, Gaussian
from support.every_case import every

DELTA = 1e-4


def make(**changes):
    fields = {
        "loss": Loss.convex(smoothness=1.0, l2=0.05),
        "n": 100,
        "batches": Cyclic(size=10),
        "epochs": 8,
        "step_size": 0.1,
        "noise_std": 1.0,
        "gradient_sensitivity": 4.0,
    }
    return NoisySGD(**{**fields, **changes})


def exact_delta(parts, epsilon):
    """Σ w_j δ_{G(μ_j)}(ε) in 40 digits."""
    e = mpmath.mpf(epsilon)
    total = mpmath.mpf(0)
    for w, mu in parts:
        if mu == 0:
            total += w * max(mpmath.mpf(0), 1 - mpmath.exp(e))
            continue
        m = mpmath.mpf(mu)
        total += w * (mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2))
    return total


def parts_of(g):
    if isinstance(g.curve, Gaussian):
        return [(mpmath.mpf(1), g.curve.mu)]
    return [(mpmath.mpf(w), p.mu) for p, w in zip(g.curve.parts, g.curve.weights, strict=True)]


KINDS = {
    "gaussian": make(),
    "tight": make(noise_std=30.0),
    "loose": make(noise_std=0.02),
    "mixture": make(batches=ShuffleOnce(15)),
    "reshuffled": make(batches=Reshuffle(25)),
    "composition": make(release="path"),
}


class Guarantees:
    """Of all kinds, each made when its turn comes."""

    def __iter__(self):
        return (run.guarantee(delta=DELTA) for run in KINDS.values())


every_kind = every("g", Guarantees())


class TestReadings:
    @every_kind
    def test_delta_is_that_of_the_parts(self, g):
        parts = parts_of(g)
        for epsilon in (-3.0, -0.2, 0.0, 0.01, 0.3, 1.0, 4.0, 12.0):
            exact = exact_delta(parts, epsilon)
            assert g.delta(epsilon) >= exact * (1 - mpmath.mpf(10) ** -30)
            # A mixture's weights are rounded up and then made to sum to one.
            assert g.delta(epsilon) <= exact * (1 + mpmath.mpf(10) ** -9) + 1e-300

    @every_kind
    def test_epsilon_and_delta_are_inverse(self, g):
        for delta in (1e-12, 1e-6, 1e-3, 0.2):
            epsilon = g.epsilon(delta)
            if epsilon == 0.0:
                assert g.delta(0.0) <= delta * (1 + 1e-9)
                continue
            assert g.delta(epsilon) == pytest.approx(delta, rel=1e-8)
            assert exact_delta(parts_of(g), epsilon) <= delta * (1 + 1e-30)
            assert exact_delta(parts_of(g), epsilon * (1 - 1e-9)) > delta

    @every_kind
    def test_epsilon_bounds(self, g):
        for delta in (1e-9, 1e-4):
            lower, upper = g.epsilon_bounds(delta)
            assert lower <= g.epsilon(delta) <= upper * (1 + 1e-12)
            assert upper - lower <= 1e-3 * upper

    @every_kind
    def test_arrays(self, g):
        epsilons = np.array([-1.0, 0.0, 0.5, 3.0])
        assert g.delta(epsilons) == pytest.approx([g.delta(float(e)) for e in epsilons], rel=1e-9)
        levels = np.array([0.0, 1e-6, 0.1, 0.5, 1.0])
        assert g.tradeoff(levels) == pytest.approx(
            [g.tradeoff(float(a)) for a in levels], abs=1e-12
        )
        assert isinstance(g.delta(0.5), float)
        assert isinstance(g.tradeoff(0.5), float)

    @every_kind
    def test_tradeoff_and_delta_are_dual(self, g):
        """f(α) ≥ 1 − δ(ε) − e^ε α for all ε, with equality for the best ε."""
        epsilons = np.linspace(-10.0, 12.0, 2201)
        deltas = sum(
            float(w)
            * (ndtr(-epsilons / m + m / 2) - np.exp(epsilons) * ndtr(-epsilons / m - m / 2))
            for w, m in parts_of(g)
        )
        for alpha in (1e-5, 0.01, 0.2, 0.7):
            lines = 1.0 - deltas - np.exp(epsilons) * alpha
            assert g.tradeoff(alpha) <= 1.0 - alpha
            # The curve may be conservative by rounding only; its tangents at grid points lie below.
            assert g.tradeoff(alpha) >= lines.max() - 1e-9
            assert g.tradeoff(alpha) <= lines.max() + 1e-3

    @every_kind
    def test_attacks(self, g):
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

    @every_kind
    def test_renyi(self, g):
        parts = parts_of(g)
        for order in (1.5, 2.0, 8.0, 40.0):
            a = mpmath.mpf(order)
            moments = mpmath.fsum(
                w * mpmath.exp(a * (a - 1) * mpmath.mpf(m) ** 2 / 2) for w, m in parts
            )
            exact = mpmath.log(moments / mpmath.fsum(w for w, _ in parts)) / (a - 1)
            assert g.rdp(order) >= exact * (1 - mpmath.mpf(10) ** -14)
            assert g.rdp(order) == pytest.approx(float(exact), rel=1e-9)
            assert g.rdp(order) <= g.zcdp * order * (1 + 1e-12)
        assert g.zcdp == pytest.approx(max(float(m) for _, m in parts) ** 2 / 2, rel=1e-12)

    @every_kind
    @every("delta", [-0.1, 1.0, math.nan, math.inf, "x", None, True])
    def test_bad_delta(self, g, delta):
        with pytest.raises(InvalidInput) as error:
            g.epsilon(delta)
        assert error.value.field == "delta"


class TestPositions:
    def test_full_batch(self):
        run = make(batches=FullBatch())
        assert run.guarantee(delta=DELTA, position=0).mu == run.guarantee(delta=DELTA).mu
        with pytest.raises(InvalidInput) as error:
            run.guarantee(delta=DELTA, position=1)
        assert error.value.field == "position"

    @every("batches", [ShuffleOnce(10), Reshuffle(10)])
    @every("release", ["last", "path"])
    def test_secret_orders_have_none(self, batches, release):
        with pytest.raises(InvalidInput) as error:
            make(batches=batches, release=release).guarantee(delta=DELTA, position=0)
        assert error.value.field == "position"

    @every("position", [-1, 10, 1.5, True, "0", math.nan])
    def test_bad_positions(self, position):
        with pytest.raises(InvalidInput) as error:
            make().guarantee(delta=DELTA, position=position)
        assert error.value.field == "position"

    def test_said_in_the_assumptions(self):
        g = make().guarantee(delta=DELTA, position=3)
        assert any("batch 3" in a and "no other record" in a for a in g.assumptions)
        assert not any("no other record" in a for a in make().guarantee(delta=DELTA).assumptions)

    def test_a_batch_that_never_comes(self):
        """Three steps of ten batches: a record of the fifth batch is never read."""
        run = make(epochs=None, steps=3)
        assert run.guarantee(delta=DELTA, position=4).mu == 0.0
        assert run.guarantee(delta=DELTA, position=4).epsilon(0.0) == 0.0
        assert run.guarantee(delta=DELTA, position=2).mu > 0.0

    def test_path(self):
        run = make(release="path", epochs=None, steps=23)
        more = run.guarantee(delta=DELTA, position=1)
        fewer = run.guarantee(delta=DELTA, position=7)
        assert more.mu == pytest.approx(0.4 * math.sqrt(3), rel=1e-12)
        assert fewer.mu == pytest.approx(0.4 * math.sqrt(2), rel=1e-12)


class TestCompose:
    def test_gaussians(self):
        a = make().guarantee(delta=DELTA)
        b = make(noise_std=0.3).guarantee(delta=DELTA)
        both = pabi.compose(a, b)
        exact = mpmath.sqrt(mpmath.mpf(a.mu) ** 2 + mpmath.mpf(b.mu) ** 2)
        assert both.mu >= exact
        assert both.mu == pytest.approx(float(exact), rel=1e-15)
        assert both.adjacency == a.adjacency

    def test_mixtures(self):
        a = make(batches=ShuffleOnce(40)).guarantee(delta=DELTA)
        b = make(batches=Reshuffle(50), noise_std=0.6).guarantee(delta=DELTA)
        assert a.mu is None
        assert b.mu is None
        both = pabi.compose(a, b)
        pairs = [
            (w * v, mpmath.sqrt(mpmath.mpf(m) ** 2 + mpmath.mpf(n) ** 2))
            for (w, m), (v, n) in itertools.product(parts_of(a), parts_of(b))
        ]
        for epsilon in (0.0, 0.5, 2.0, 6.0):
            exact = exact_delta(pairs, epsilon)
            assert both.delta(epsilon) >= exact * (1 - mpmath.mpf(10) ** -15)
            assert both.delta(epsilon) == pytest.approx(float(exact), rel=1e-9)

    def test_associative(self):
        a = make(batches=ShuffleOnce(40)).guarantee(delta=DELTA)
        b = make(noise_std=0.6).guarantee(delta=DELTA)
        c = make(batches=ShuffleOnce(25), epochs=3).guarantee(delta=DELTA)
        left = pabi.compose(pabi.compose(a, b), c)
        right = pabi.compose(a, pabi.compose(b, c))
        flat = pabi.compose(a, b, c)
        for epsilon in (0.0, 1.0, 5.0):
            assert left.delta(epsilon) == pytest.approx(flat.delta(epsilon), rel=1e-9)
            assert right.delta(epsilon) == pytest.approx(flat.delta(epsilon), rel=1e-9)

    def test_mixed_adjacencies(self):
        a = make().guarantee(delta=DELTA)
        b = make(adjacency="zero_out").guarantee(delta=DELTA)
        with pytest.raises(InvalidInput) as error:
            pabi.compose(a, b)
        assert error.value.field == "adjacency"

    def test_mixed_units(self):
        a = make().guarantee(delta=DELTA)
        b = dataclasses.replace(a, unit="user")
        assert (a.unit, b.unit) == ("record", "user")
        for pair in ((a, b), (b, a)):
            with pytest.raises(InvalidInput) as error:
                pabi.compose(*pair)
            assert error.value.field == "unit"
        assert pabi.compose(b, b).unit == "user"

    def test_a_list_is_to_be_unpacked(self):
        g = make().guarantee(delta=DELTA)
        with pytest.raises(InvalidInput, match="one by one"):
            pabi.compose([g, g])

    def test_nothing(self):
        with pytest.raises(InvalidInput):
            pabi.compose()

    def test_without_a_closed_form(self):
        g = make().guarantee(delta=DELTA)
        pure = dataclasses.replace(g, curve=ApproxDP(1.0, 1e-6))
        assert pabi.compose(g, pure).curve == g.curve.compose(pure.curve)

    def test_with_a_void_guarantee(self):
        void = NoisyIteration(
            contraction=1.0, step_sensitivity=1.0, step_noise_std=0.0, steps=2
        ).guarantee()
        assert pabi.compose(make().guarantee(delta=DELTA), void).mu == math.inf

    def test_assumptions_of_all(self):
        a = make(batches=ShuffleOnce(40)).guarantee(delta=DELTA)
        b = make(release="path").guarantee(delta=DELTA)
        both = pabi.compose(a, b)
        assert set(a.assumptions) | set(b.assumptions) <= set(both.assumptions)
        assert any("independent noise" in s for s in both.assumptions)
        assert len(set(both.assumptions)) == len(both.assumptions)

    def test_one_order_used_twice(self):
        """The product of two mixtures needs two orders: with one, both releases meet at one place.

        Σ_j w_j δ_{G(√2 μ_j)} is the exact δ of a pair of labelled Gaussians with a common label, and
        exceeds that of the product at large ε. So the assumption has to be said.
        """
        g = make(batches=ShuffleOnce(50), epochs=1, noise_std=0.05).guarantee(delta=DELTA)
        twice = pabi.compose(g, g)
        common = [(w, math.sqrt(2.0) * float(m)) for w, m in parts_of(g)]
        worse = [e for e in (1.0, 3.0, 6.0, 10.0) if exact_delta(common, e) > twice.delta(e)]
        assert worse
        added = [s for s in twice.assumptions if s not in g.assumptions]
        assert any("order" in s or "permutation" in s for s in added), added

    @every(
        "runs",
        [
            (make(), make(noise_std=0.4)),
            (make(), make(batches=ShuffleOnce(40))),
            (make(batches=ShuffleOnce(40)), make(batches=ShuffleOnce(30))),
            (make(batches=Reshuffle(40)), make(batches=ShuffleOnce(30)), make()),
        ],
    )
    def test_verifies(self, runs):
        both = pabi.compose(*(run.guarantee(delta=DELTA) for run in runs))
        assert not both.verified
        verdict = pabi.verify(both)
        assert verdict.ok, verdict.reason
        assert both.verified
        assert verdict.scope == "run"
        assert pabi.verify(both.to_json()).ok

    def test_iterations_lower_the_scope(self):
        bare = NoisyIteration(
            contraction=0.9, step_sensitivity=1.0, step_noise_std=4.0, steps=5
        ).guarantee(delta=DELTA)
        assert pabi.verify(pabi.compose(make().guarantee(delta=DELTA), bare)).scope == "iteration"

    def test_nothing_to_prove_with(self):
        """A run with reproducible noise has no certificate, and nothing composed of it has one."""
        for_test = make().guarantee(delta=DELTA).for_testing()
        assert for_test.certificate is None
        assert "testing only" in for_test.assumptions[0]
        both = pabi.compose(make().guarantee(delta=DELTA), for_test)
        assert both.certificate is None
        assert any("testing only" in s for s in both.assumptions)
        assert not pabi.verify(both).ok
        assert not both.verified


class TestJson:
    @every_kind
    def test_round_trip(self, g):
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

    @every_kind
    def test_verified_only_by_the_checker(self, g):
        assert not make().guarantee(delta=DELTA).verified
        back = Guarantee.from_json(g.to_json())
        assert not back.verified
        verdict = pabi.verify(back)
        assert verdict.ok, verdict.reason
        assert back.verified

    def test_verified_is_not_read_from_the_text(self):
        data = make().guarantee(delta=DELTA).to_dict(certificate=True)
        data["certificate"]["verdict"] = {"ok": True}
        assert not Guarantee.from_dict(data).verified
        assert not pabi.verify(data).ok
        data["verified"] = True
        with pytest.raises(InvalidInput, match="^verified: unknown key"):
            Guarantee.from_dict(data)

    @pytest.mark.parametrize("kind", list(KINDS))
    @every("factor", [1 - 1e-6, 0.5])
    def test_a_smaller_claim_is_not_verified(self, kind, factor):
        data = KINDS[kind].guarantee(delta=DELTA).to_dict(certificate=True)
        curve = data["tradeoff"]
        if curve["kind"] == "gaussian":
            curve["mu"] *= factor
            with pytest.raises(InvalidInput) as error:
                Guarantee.from_dict(data)
            assert error.value.field == "mu"
            data["mu"] = curve["mu"]
        else:
            curve["mus"][-1] *= factor
        g = Guarantee.from_dict(data)
        assert not pabi.verify(g).ok
        assert not g.verified

    def test_mass_moved_to_safer_parts(self):
        data = KINDS["mixture"].guarantee(delta=DELTA).to_dict(certificate=True)
        weights = data["tradeoff"]["weights"]
        weights[0] += 1e-6
        weights[-1] -= 1e-6
        assert not pabi.verify(Guarantee.from_dict(data)).ok

    def test_only_mu_changed(self):
        data = make().guarantee(delta=DELTA).to_dict(certificate=True)
        for wrong in (data["mu"] * 0.5, 0.0, "inf", None, "x", []):
            changed = {**data, "mu": wrong}
            with pytest.raises(InvalidInput) as error:
                Guarantee.from_dict(changed)
            assert error.value.field == "mu"

    @every_kind
    def test_every_assumption_is_needed(self, g):
        data = g.to_dict(certificate=True)
        for i in range(len(data["assumptions"])):
            changed = copy.deepcopy(data)
            gone = changed["assumptions"].pop(i)
            guarantee = Guarantee.from_dict(changed)
            verdict = pabi.verify(guarantee)
            assert not verdict.ok, gone
            assert gone in verdict.reason
            assert not guarantee.verified

    def test_another_adjacency(self):
        data = make().guarantee(delta=DELTA).to_dict(certificate=True)
        data["adjacency"] = "zero_out"
        assert not pabi.verify(Guarantee.from_dict(data)).ok

    def test_a_curve_no_certificate_proves(self):
        data = make().guarantee(delta=DELTA).to_dict(certificate=True)
        data["tradeoff"] = {"kind": "approx_dp", "epsilon": 0.1, "delta": 1e-9}
        data["mu"] = None
        g = Guarantee.from_dict(data)
        assert not pabi.verify(g).ok
        assert not g.verified

    def test_a_changed_object_is_not_verified(self):
        g = make().guarantee(delta=DELTA)
        assert pabi.verify(g).ok
        assert g.verified
        better = dataclasses.replace(g, curve=Gaussian(g.mu / 2))
        assert not better.verified
        assert not pabi.verify(better).ok

    def test_infinite(self):
        g = NoisyIteration(
            contraction=1.0, step_sensitivity=1.0, step_noise_std=0.0, steps=3
        ).guarantee()
        assert g.mu == math.inf
        assert g.epsilon(1e-5) == math.inf
        assert g.delta(10.0) == 1.0
        assert g.advantage == 1.0
        assert g.tradeoff(0.3) == 0.0
        text = g.to_json()
        assert json.loads(text)["mu"] == "inf"
        assert "Infinity" not in text
        assert "NaN" not in text
        back = Guarantee.from_json(text)
        assert back.mu == math.inf
        assert pabi.verify(back).ok
        assert "inf" in str(g)

    @every(
        ("name", "value", "field"),
        [
            ("format", "pabi.certificate", "format"),
            ("format", None, "format"),
            ("version", 3, "version"),
            ("version", None, "version"),
            ("adjacency", "add_or_remove_one", "adjacency"),
            ("adjacency", 3, "adjacency"),
            ("assumptions", "none", "assumptions"),
            ("method", None, "method"),
            ("tradeoff", None, "tradeoff"),
            ("tradeoff", {"kind": "gaussian"}, "mu"),
            ("tradeoff", {"kind": "magic"}, "kind"),
            ("tuned_at", "soon", "tuned_at"),
        ],
    )
    def test_malformed(self, name, value, field):
        data = make().guarantee(delta=DELTA).to_dict(certificate=True)
        data[name] = value
        with pytest.raises(InvalidInput) as error:
            Guarantee.from_dict(data)
        assert error.value.field == field

    @every(
        "curve",
        [
            {"kind": "mixture", "mus": 5, "weights": [1.0]},
            {"kind": "mixture", "mus": [1.0], "weights": 5},
            {"kind": "mixture", "mus": None, "weights": None},
            {"kind": "mixture", "mus": [], "weights": []},
            {"kind": "mixture", "mus": [1.0, 2.0], "weights": [1.0]},
            {"kind": "mixture", "mus": [{}], "weights": [1.0]},
            {"kind": "gaussian", "mu": []},
            {"kind": "gaussian", "mu": -1.0},
            {"kind": []},
        ],
    )
    def test_malformed_curves(self, curve):
        data = make().guarantee(delta=DELTA).to_dict(certificate=True)
        data["tradeoff"] = curve
        with pytest.raises(InvalidInput):
            Guarantee.from_dict(data)

    @every("text", ["", "{", "[]", "5", '"x"', "NaN", '{"format": NaN}', "[" * 9999])
    def test_not_json(self, text):
        with pytest.raises(InvalidInput):
            Guarantee.from_json(text)

    def test_an_integer_too_long_to_read(self):
        with pytest.raises(InvalidInput):
            Guarantee.from_json('{"version": ' + "1" * 5000 + "}")


class TestChoice:
    @every("delta", [0.011, 0.5])
    def test_large_delta_warns(self, delta):
        with pytest.warns(PrivacyWarning):
            make().guarantee(delta=delta)

    def test_small_delta_does_not(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            make().guarantee(delta=0.01)

    @pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
    @every("delta", [-1.0, 1.0, 2.0, math.nan, "0.1", None, True])
    def test_bad_delta(self, delta):
        with pytest.raises(InvalidInput) as error:
            make().guarantee(delta=delta)
        assert error.value.field == "delta"

    @pytest.mark.parametrize(
        "changes",
        [{"update": "other"}, {"release": "path"}, {"loss": Loss.unknown()}],
        ids=["update", "release", "loss"],
    )
    @every("batches", [Cyclic(10), ShuffleOnce(10), Reshuffle(10), FullBatch()])
    def test_composition_only(self, changes, batches):
        g = make(batches=batches, **changes).guarantee(delta=DELTA)
        assert g.method == "composition"
        size = 100 if batches == FullBatch() else 10
        assert g.mu == pytest.approx(math.sqrt(8) * 4.0 / size, rel=1e-12)
        assert not any("last iterate" in s for s in g.assumptions)
        assert pabi.verify(g).ok

    def test_clipping_that_can_expand(self):
        """Its least slope is above one, so that a long run is worth no more than composition."""
        run = make(loss=Loss.softmax(feature_norm=8.0), gradient_sensitivity=None, clip_norm=5.0)
        clipped = run.guarantee(delta=DELTA).epsilon(DELTA)
        harmless = make(loss=Loss.logistic(8.0), gradient_sensitivity=None, clip_norm=5.0)
        assert clipped > harmless.guarantee(delta=DELTA).epsilon(DELTA)
        bounded = make(loss=Loss.softmax(feature_norm=1.0), gradient_sensitivity=None)
        assert bounded.guarantee(delta=DELTA).method == "payments in advance"

    @every("batches", [Cyclic(10), ShuffleOnce(10), Reshuffle(10)])
    def test_no_noise(self, batches):
        run = make(noise_std=None, batches=batches)
        with pytest.raises(InvalidInput) as error:
            run.guarantee(delta=DELTA)
        assert error.value.field == "noise_std"

    def test_reported(self):
        methods = {k: run.guarantee(delta=DELTA).method for k, run in KINDS.items()}
        assert methods["composition"] == "composition"
        assert methods["gaussian"] == "shifted interpolation"
        assert methods["mixture"] == "secret order"
        for run in KINDS.values():
            g = run.guarantee(delta=DELTA)
            assert g.tuned_at == DELTA
            assert "2024" in g.source or "2022" in g.source
            assert g.composition.epsilon(DELTA) >= g.epsilon(DELTA) * (1 - 1e-12)
            assert g.adjacency in str(g)
            assert g.method in str(g)


class Box:
    """A proximal map whose range has a diameter."""

    def __init__(self, diameter):
        self.diameter = diameter

    def __call__(self, x, step_size):
        return x

    def __repr__(self):
        return f"Box({self.diameter!r})"


def says(g, *words):
    return any(all(w in sentence for w in words) for sentence in g.assumptions)


BOUNDED = {"gradient_sensitivity": None, "loss": Loss.logistic(feature_norm=2.5)}
SAID = [
    ({}, ("only the last iterate", "hidden")),
    ({"batches": ShuffleOnce(10)}, ("only the last iterate",)),
    *(
        ({"batches": order}, ("permutation", "uniformly", "independently of the data", "secret"))
        for order in (ShuffleOnce(10), Reshuffle(10))
    ),
    ({}, ("order", "do not depend on the data")),
    ({}, ("start",)),  # computed from the data, it would void every guarantee
    *(
        ({"batches": Cyclic(size)}, ("short last one included", f"divided by {size}"))
        for size in (10, 13)
    ),
    *(
        (changes | {"release": release}, words)
        for changes, words in (
            ({}, ("moves a batch's gradient sum", "4.0")),
            ({"gradient_sensitivity": None, "clip_norm": 3.0}, ("clipped to norm", "3.0")),
            (BOUNDED, ("gradient has norm at most", "2.5")),
            (BOUNDED | {"clip_norm": 7.0}, ("gradient has norm at most", "2.5")),
        )
        for release in ("last", "path")
    ),
    ({"loss": Loss.nonconvex(smoothness=0.75)}, ("curvature in [-0.75, 0.75]",)),
    ({"loss": Loss.strongly_convex(0.25, 0.75)}, ("curvature in [0.25, 0.75]",)),
    ({"loss": Loss.logistic(2.0)}, ("feature_norm = 2.0",)),
    ({}, ("0.05", "exactly", "outside clipping and batch")),
    ({"cooldown_steps": 7}, ("last 7 steps use no data",)),
]


class TestAssumptions:
    @every(("changes", "words"), SAID)
    def test_what_is_assumed_is_said(self, changes, words):
        assert says(make(**changes).guarantee(delta=DELTA), *words)

    def test_clipping_of_scalar_gradients(self):
        loss = Loss.convex(smoothness=1.0, glm=True)
        g = make(loss=loss, gradient_sensitivity=None, clip_norm=2.0).guarantee(delta=DELTA)
        assert g.method == "shifted interpolation"
        assert says(g, "glm")

    @every(
        ("changes", "without", "words"),
        [
            ({"diameter": 0.01}, {}, ("0.01", "apart")),
            ({"prox": Box(0.01)}, {}, ("Box(0.01)", "nonexpansive")),
            # A stated diameter that is less than the map's own is what the proof uses.
            ({"prox": Box(1000.0), "diameter": 0.01}, {"prox": Box(1000.0)}, ("0.01",)),
        ],
    )
    def test_diameter(self, changes, without, words):
        g = make(**changes, epochs=200).guarantee(delta=DELTA)
        assert g.mu < make(**without, epochs=200).guarantee(delta=DELTA).mu
        assert says(g, *words), g.assumptions

    def test_diameter_of_a_map_known_by_name(self):
        """Read from a certificate, a map is a name; the diameter it is credited with must be said."""
        g = make(prox=Box(0.01), epochs=200).guarantee(delta=DELTA)
        payload = copy.deepcopy(g.certificate.payload)
        payload["run"]["prox"]["name"] = "some map"
        verdict = pabi.verify(payload)
        assert not verdict.ok or any("0.01" in s for s in verdict.assumptions), verdict.assumptions

    @every("adjacency", ["replace_one", "zero_out"])
    def test_adjacency(self, adjacency):
        g = make(adjacency=adjacency).guarantee(delta=DELTA)
        assert g.adjacency == adjacency
        assert says(g, "adjacent data sets", adjacency)

    def test_noise(self):
        for run in KINDS.values():
            assert says(run.guarantee(delta=DELTA), "Gaussian", "fresh", "never revealed")

    def test_iteration(self):
        it = NoisyIteration(
            contraction=0.9,
            step_sensitivity=1.0,
            step_noise_std=2.0,
            steps=40,
            diameter=0.75,
            start=0.5,
        )
        g = it.guarantee(delta=DELTA)
        for words in (("as stated", "worst record"), ("diameter 0.75",), ("at most 0.5 apart",)):
            assert says(g, *words)
        assert says(g, "only the last iterate")

    def test_the_same_as_the_checker_derives(self):
        for run in KINDS.values():
            g = run.guarantee(delta=DELTA)
            assert pabi.verify(g).assumptions == g.assumptions


def guarded(run, **keywords):
    """The guarantee, with numpy's warnings as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return run.guarantee(**keywords)


EXTREMES = {
    "sensitivity": {"gradient_sensitivity": 1e300},
    "sensitivity, little noise": {"gradient_sensitivity": 1e300, "noise_std": 1e-300},
    "little noise": {"noise_std": 1e-300},
    "step sizes": {"step_size": 1e300},
    "step sizes on a diameter": {"step_size": 1e300, "diameter": 1.0},
    "step sizes and curvature": {"step_size": 1e300, "loss": Loss.convex(1e300)},
    "step sizes and l2": {"step_size": 1e300, "loss": Loss.convex(1.0, l2=1e300)},
    "step sizes, written out": {"step_size": np.linspace(1e299, 1e300, 80)},
    "step sizes, written out, on a diameter": {
        "step_size": np.linspace(1e299, 1e300, 80),
        "diameter": 1.0,
    },
    "everything": {
        "step_size": np.full(80, 1e300),
        "gradient_sensitivity": 1e300,
        "noise_std": 1e300,
    },
    "noise, written out": {"noise_std": np.full(80, 1e-300), "gradient_sensitivity": 1e300},
    "tiny steps": {"step_size": 1e-300},
    "tiny steps, tiny noise": {"step_size": 1e-200, "noise_std": 1e-200},
    "least steps": {"step_size": 5e-324},
    "expansive": {"loss": Loss.nonconvex(1e5), "epochs": 100},
    "expansive, written out": {"loss": Loss.nonconvex(1e5), "step_size": np.full(80, 10.0)},
    "slope zero": {"loss": Loss.strongly_convex(1.0, 1.0), "step_size": 1.0},
    "slope zero at times": {
        "loss": Loss.strongly_convex(1.0, 1.0),
        "step_size": np.where(np.arange(80) % 7 == 0, 1.0, 0.5),
    },
    "much noise": {"noise_std": 1e300},
    "no sensitivity to speak of": {"gradient_sensitivity": 1e-300, "noise_std": 1e300},
    "a square that underflows": {"gradient_sensitivity": 1e-100, "noise_std": 1e70},
    "a square that underflows, path": {
        "gradient_sensitivity": 1e-100,
        "noise_std": 1e70,
        "release": "path",
    },
}


# On a diameter every position is solved in many digits: two of the four kinds of batches take seconds.
OVERFLOWS = [
    pytest.param(
        batches,
        name,
        id=f"{batches.kind}-{name}",
        marks=pytest.mark.nightly
        if name.endswith("on a diameter") and batches.kind in slow
        else (),
    )
    for batches in (Cyclic(10), ShuffleOnce(15), Reshuffle(20), FullBatch())
    for name in EXTREMES
    for slow in [("cyclic", "shuffle_once") if "written out" in name else ("shuffle_once",)]
]


class TestOverflow:
    """Results may be ∞ or too large, never an exception and never too small."""

    @pytest.mark.parametrize(("batches", "name"), OVERFLOWS)
    def test_runs(self, name, batches):
        if isinstance(EXTREMES[name].get("step_size", EXTREMES[name].get("noise_std")), np.ndarray):
            steps = len(EXTREMES[name].get("step_size", EXTREMES[name].get("noise_std")))
            run = make(**{**EXTREMES[name], "batches": batches, "epochs": None, "steps": steps})
        else:
            run = make(**{**EXTREMES[name], "batches": batches})
        g = guarded(run, delta=DELTA)
        # A record of the last batch that was read cannot cost less than that one step, unless a
        # later step forgets it: (s/σ) of the last step is a lower bound on the worst μ.
        if run.data_steps == run.steps:
            last = np.ravel(np.broadcast_to(run.gradient_noise_std, run.steps))[-1]
            ratio = mpmath.mpf(run.sensitivity) / run.batch_size / mpmath.mpf(float(last))
            worst = max(part.mu for part in getattr(g.curve, "parts", [g.curve]))
            assert worst >= ratio * (1 - mpmath.mpf(10) ** -12)
        assert not math.isnan(g.epsilon(DELTA))
        verdict = pabi.verify(g)
        assert verdict.ok, verdict.reason

    @every("noise", [5e-324, 1e-160, 1.0, 1e160])
    @every("slope", [0.0, 1e-300, 0.5, 1.0, 1e300])
    @every("written", [False, True])
    def test_iterations(self, noise, slope, written):
        wrong = []
        for sensitivity in (1e-320, 1e-200, 1e-160, 1.2e154, 1e160, 1e300):
            it = NoisyIteration(
                contraction=np.full(6, slope) if written else slope,
                step_sensitivity=sensitivity,
                step_noise_std=noise,
                steps=6,
            )
            try:
                g = guarded(it)
                ok, least = pabi.verify(g).ok, mpmath.mpf(sensitivity) / mpmath.mpf(noise)
                if not ok or g.mu < least * (1 - mpmath.mpf(10) ** -12):
                    wrong.append((sensitivity, g.mu, ok))
            except (ArithmeticError, RuntimeWarning) as error:
                wrong.append((sensitivity, repr(error)))
        assert not wrong

    @every("written", [False, True])
    @every("scale", [2.81e-162, 3.0e-162, 7e-162, 1.3e-161, 1e-155, 1.0, 1e150])
    def test_squares_that_lose_their_digits(self, scale, written):
        """X_t = X_0 + Σ (s + Z_k), Z_k ~ N(0, s²): t steps are exactly G(√t), whatever the unit."""
        it = NoisyIteration(
            contraction=np.ones(6) if written else 1.0,
            step_sensitivity=scale,
            step_noise_std=scale,
            steps=6,
        )
        g = it.guarantee()
        assert g.mu**2 >= 6.0 * (1 - 1e-15)
        assert g.mu == pytest.approx(math.sqrt(6.0), rel=1e-11)
        assert pabi.verify(g).ok

    @every("batches", [Cyclic(10), ShuffleOnce(10), Reshuffle(10)])
    @every("epochs", [1e12, 1e16])
    def test_many_epochs(self, batches, epochs):
        g = guarded(make(batches=batches, epochs=epochs), delta=DELTA)
        assert g.epsilon(DELTA) > 0.0
        assert pabi.verify(g).ok

    def test_too_many_epochs(self):
        """The number of steps is no longer a number."""
        for epochs in (1e18, 1e300, 1e308):
            with pytest.raises(InvalidInput) as error:
                make(epochs=epochs)
            assert error.value.field == "epochs"


def test_a_replaced_curve_is_read_anew():
    """No reading of the old curve may answer for the new one."""
    g = make().guarantee(delta=DELTA)
    before = g.epsilon(DELTA)
    worse = dataclasses.replace(g, curve=pabi.tradeoff.Gaussian(2.0 * g.mu))
    assert worse.epsilon(DELTA) == worse.curve.epsilon(DELTA) > before
    assert g.epsilon(DELTA) == before


class TestNotebooks:
    @every("kind", list(KINDS))
    def test_short_in_a_console(self, kind):
        g = KINDS[kind].guarantee(delta=DELTA)
        for text in (str(g), repr(g)):
            assert len(text) < 250
            assert "\n" not in text
            assert shown(g.epsilon(DELTA)) in text

    def test_short_however_large_the_curve_is(self):
        best = Best(
            (make(batches=ShuffleOnce(1)).guarantee(delta=DELTA).curve, ApproxDP(0.5, 1e-9))
        )
        g = dataclasses.replace(make().guarantee(delta=DELTA), curve=best)
        assert len(repr(best)) > 2000
        assert len(str(g)) < 250
        assert len(repr(g)) < 250

    @every_kind
    def test_a_table_with_the_assumptions_folded(self, g):
        html = g._repr_html_()
        assert f"<td>{shown(g.epsilon(DELTA))}</td>" in html
        assert f"<summary>{len(g.assumptions)} assumptions</summary>" in html
        assert html.count("<li>") == len(g.assumptions)
        assert f"<td>{'none' if g.mu is None else shown(g.mu)}</td>" in html
        assert "testing only" not in html
        assert "testing only" in g.for_testing()._repr_html_()

    def test_a_table_escapes_what_a_file_says(self):
        g = make().guarantee(delta=DELTA).assuming("<script>alert(1)</script>")
        assert "<script>" not in g._repr_html_()
        assert "&lt;script&gt;" in g._repr_html_()

"""The kinds of trade-off functions are a closed table: what others define is shown, never relied on."""

import inspect
import json
import math
import pickle
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import pytest

import pabi
from pabi import tradeoff as t
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff.base import chosen, common, one_order, opposite
from pabi.tradeoff.gaussian_below import gaussian_below
from pabi.tradeoff.kinds import KINDS, known_curve
from support.every_case import every, refused

INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Flattering(t.Gaussian):
    """A Gaussian that says nothing leaks, under the name of the honest one."""

    kind: ClassVar[str] = "gaussian"

    def epsilon(self, delta):
        return 0.0

    def _delta(self, epsilon):
        return 0.0


@dataclass(frozen=True)
class Renamed(t.Gaussian):
    kind: ClassVar[str] = "renamed"


LIAR = Flattering(3.0)
ONE, TWO, PURE = t.Gaussian(1.0), t.Gaussian(2.0), t.ApproxDP(1.0)
ORDER = t.PoissonSubsampled(1.0, 0.1, "remove")
OWN = [t.ApproxDP(1.0, 1e-6), t.ApproxDP(INF, 0.0), t.Best([ONE, PURE]), t.BoundedRange(1.0), ONE]
OWN += [t.Gaussian(INF), t.Identity(), t.Grouped(t.Mixture([ONE, TWO], [0.5, 0.5]), 2)]
OWN += [t.Laplace(1.0, 0.5), t.Mixture([ONE, TWO], [0.25, 0.75])]
OWN += [t.Mixture([ONE, t.Gaussian(INF)], [0.75, 0.25])]
OWN += [*(t.FixedSizeSubsampled(2.0, 1.0, INF, 0.1, way) for way in ("both", "remove", "add"))]
OWN += [t.PoissonReplaced(1.0, 0.1), t.PoissonSubsampled(1.0, 0.1)]
OWN += [t.PoissonSubsampled(INF, 0.1, "add")]
OWN += [t.PrivacyLossDistribution([0.5, 0.5, 0.0], [0.25, 0.5, 0.25], "add")]
OWN += [t.Product(((t.BoundedRange(1.0), 2),))]
OWN += [t.Product([(t.Subsampled(ONE, 0.1), 3), (TWO, 2)], 1e-7)]
OWN += [ORDER.self_compose(5).compose(PURE), t.RenyiDP(8.0, 0.0)]
OWN += [t.RandomAllocation([0.5, 0.25], [1.0, 0.5], [4, 2], opposite=True)]
OWN += [t.RandomAllocation([0.9], [0.7], [9], displaces=True, hub=0.7)]
OWN += [t.RandomAllocation([0.5, 0.3], [[1.0, 0.7, 0.2], [0.4, 0.9, 1.3]], [5, 2], displaces=True)]
OWN += [t.RenyiDP(8.0, INF), t.RenyiDP(2.5, 0.1)]
OWN += [t.SecretMixture([2.0, 1.0, 1.0], [0.5, 0.25, 0.25], opposite=True)]
OWN += [t.Selected(ONE, 10.0, 0.5), t.Subsampled(ONE, 0.1)]


def forged(curve, **fields):
    """`curve` with fields that its constructor would have refused."""
    for name, value in fields.items():
        object.__setattr__(curve, name, value)
    return curve


def descendants(cls):
    for sub in cls.__subclasses__():
        yield sub
        yield from descendants(sub)


def test_the_table_holds_every_class_of_the_library():
    every = (cls for cls in descendants(t.TradeOff) if not inspect.isabstract(cls))
    library = {cls for cls in every if cls.__module__.startswith("pabi.")}
    assert set(KINDS.values()) == library == {type(curve) for curve in OWN}
    assert all(KINDS[cls.kind] is cls for cls in library)
    with pytest.raises(TypeError):
        KINDS["gaussian"] = Flattering


def test_a_class_from_elsewhere_takes_no_name_over():
    assert type(t.TradeOff.from_dict({"kind": "gaussian", "mu": 1.0})) is t.Gaussian
    with pytest.raises(InvalidInput, match="kind: expected one of approx_dp, best"):
        t.TradeOff.from_dict({"kind": "renamed", "mu": 1.0})


@every("curve", OWN)
def test_own_curves_are_known_and_come_back_from_files(curve):
    assert known_curve(curve) is curve
    written = t.TradeOff.from_dict(json.loads(json.dumps(curve.to_dict(), allow_nan=False)))
    for copy in (written, pickle.loads(pickle.dumps(curve))):
        assert copy == curve
        assert hash(copy) == hash(curve)
    assert curve.inverse().inverse() == curve


@every(
    "kind", ["approx_dp", "bounded_range", "mixture", "poisson_subsampled", "product", "subsampled"]
)
def test_composition_knows_neither_order_nor_what_reveals_nothing(kind):
    for curve in (x for x in OWN if x.kind == kind and x.orientation == "symmetric"):
        alone = curve.epsilon(1e-5)
        assert curve.compose(t.Identity()).epsilon(1e-5) == pytest.approx(alone, rel=1e-3)
        twice = curve.self_compose(2).epsilon(1e-5)
        assert curve.compose(curve).epsilon(1e-5) == pytest.approx(twice, rel=1e-9)
        both = curve.compose(ONE)
        assert both == ONE.compose(curve)
        assert t.TradeOff.from_dict(json.loads(json.dumps(both.to_dict()))) == both


REFUSED = {
    "as it is": lambda: known_curve(LIAR),
    "written": LIAR.to_dict,
    "composed": lambda: LIAR.compose(ONE),
    "composed with": lambda: ONE.compose(LIAR),
    "composed with nothing": lambda: t.Identity().compose(LIAR),
    "composed with itself": lambda: LIAR.self_compose(3),
    "a factor": lambda: t.Product(((LIAR, 2),)),
    "one of the best": lambda: t.Best([ONE, LIAR]),
    "a part of a mixture": lambda: t.Mixture([LIAR], [1.0]),
    "selected from": lambda: t.Selected(LIAR, 10.0, 0.5),
    "sampled": lambda: t.Subsampled(LIAR, 0.1),
    "on a grid": lambda: t.PrivacyLossDistribution.pessimistic(LIAR, 0.1),
    "no curve": lambda: known_curve(0.5),
    "a class": lambda: known_curve(t.Gaussian),
    "hidden in the best": lambda: known_curve(forged(t.Best([ONE]), parts=(LIAR,))),
    "hidden in a mixture": lambda: known_curve(forged(t.Mixture([ONE], [1.0]), parts=(LIAR,))),
    "hidden in a product": forged(
        t.Product(((t.BoundedRange(1.0), 2),)), factors=((LIAR, 1),)
    ).to_dict,
    "hidden in a selection": lambda: known_curve(forged(t.Selected(ONE, 10.0, 0.5), base=LIAR)),
    "hidden in a sample": lambda: ONE.compose(forged(t.Subsampled(ONE, 0.1), base=LIAR)),
}


@every("how", REFUSED)
def test_a_class_from_elsewhere_is_refused(how):
    with pytest.raises(InvalidInput, match="expected (a trade-off function|.*Gaussian)") as refusal:
        REFUSED[how]()
    assert "\n" not in str(refusal.value)


def test_a_class_from_elsewhere_is_shown_and_never_the_guarantee():
    run = pabi.NoisyIteration(1.0, 1.0, 1.0, steps=3)
    shown = run.explain(1e-5, also=[lambda described: LIAR])
    assert [row.epsilon for row in shown if row.method == "<lambda>"] == [0.0]
    assert shown.best is not None
    assert shown.best.epsilon(1e-5) > 0.0


@every("read", [opposite, one_order, lambda direction: chosen(direction, 1, 2)])
def test_no_other_direction_is_taken_for_a_usual_one(read):
    with pytest.raises(AssertionError, match="sideways"):
        read("sideways")


def test_orders_do_not_mix():
    assert common(["symmetric", "remove", "symmetric"]) == "remove"
    assert common([]) == "symmetric"
    with pytest.raises(InvalidInput, match=r"orientation: .*\['add', 'remove'\]"):
        common(["remove", "add"])
    both, remove, add = (replace(ORDER, direction=way) for way in ("both", "remove", "add"))
    for f, g in ((remove, add), (remove, both), (add.self_compose(3), both)):
        refused("orientation", f.compose, g)
    assert remove.compose(ONE).inverse() == add.compose(ONE)
    assert remove.self_compose(2).symmetrised() == both.self_compose(2)


# Every class with arguments that its constructor refuses, by the field that the refusal names.
ARGUMENTS = [(t.ApproxDP, "epsilon", (-1.0, 0.0)), (t.ApproxDP, "delta", (1.0, 1.5), (1.0, -0.1))]
ARGUMENTS += [(t.Gaussian, "mu", (-1.0,)), (t.Laplace, "epsilon", (-1.0,), (INF,), (NAN,))]
ARGUMENTS += [(t.Laplace, "probability", (1.0, -0.1), (1.0, 1.1))]
ARGUMENTS += [(t.RenyiDP, "order", (1.0, 0.1), (INF, 0.1))]
ARGUMENTS += [(t.RenyiDP, "rho", (2.0, -0.1), (2.0, NAN))]
ARGUMENTS += [(t.PoissonReplaced, "mu", (-1.0, 0.5), (NAN, 0.5), ("1", 0.5))]
ARGUMENTS += [(t.PoissonReplaced, "probability", (1.0, 1.5))]
ARGUMENTS += [(t.PoissonSubsampled, "mu", (-1.0, 0.1))]
ARGUMENTS += [(t.PoissonSubsampled, "probability", (1.0, NAN))]
ARGUMENTS += [(t.PoissonSubsampled, "direction", (1.0, 0.1, "sideways"))]
ARGUMENTS += [(t.FixedSizeSubsampled, "norm", (0.0, 1, 1, 0.1))]
ARGUMENTS += [(t.FixedSizeSubsampled, "other", (1, -1, 1, 0.1))]
ARGUMENTS += [(t.FixedSizeSubsampled, "apart", (1, 1, "x", 0.1))]
ARGUMENTS += [(t.Subsampled, "base", (PURE, 0.1)), (t.Subsampled, "probability", (ONE, 1.5))]
ARGUMENTS += [(t.SecretMixture, "means", ([-1.0], [1.0]), ([21.0], [1.0]), ([NAN], [1.0]))]
ARGUMENTS += [(t.SecretMixture, "weights", ([1.0], [0.5]), ([1.0, 2.0], [1.0]), ([], []))]
ARGUMENTS += [(t.SecretMixture, "opposite", ([1.0], [1.0], 1))]
ARGUMENTS += [
    (t.RandomAllocation, "shares", ([0.6, 0.6], [1.0, 1.0], [2, 2]), ([], [], []), ([0.5], [], [1]))
]
ARGUMENTS += [
    (t.RandomAllocation, "shares", ([-0.5], [1.0], [1]), ([NAN], [1.0], [1]), ([0.0], [1.0], [1]))
]
ARGUMENTS += [(t.RandomAllocation, "sizes", ([0.5], [-1.0], [1]), ([0.5], [NAN], [1]))]
ARGUMENTS += [(t.RandomAllocation, "counts", ([0.5], [1.0], [0]), ([0.5], [1.0], [1.5]))]
ARGUMENTS += [(t.RandomAllocation, "opposite", ([0.5], [1.0], [1], 1))]
ARGUMENTS += [(t.RandomAllocation, "displaces", ([0.5], [1.0], [1], False, None))]
ARGUMENTS += [(partial(t.RandomAllocation, hub=-1.0), "hub", ([0.9], [0.5], [9], False, True))]
ARGUMENTS += [(partial(t.RandomAllocation, hub=0.5), "hub", ([0.9], [0.5], [9], False, False))]
ARGUMENTS += [(partial(t.RandomAllocation, hub=0.5), "shares", ([1.0], [0.5], [9], False, True))]
ARGUMENTS += [(t.RandomAllocation, "sizes", ([0.5, 0.4], [[0.5, 0.4], [0.3]], [5, 4]))]
ARGUMENTS += [(t.Mixture, "weights", ([], []), ([ONE], [0.5]), ([ONE, TWO], [1.0]), ([ONE], [NAN]))]
ARGUMENTS += [(t.Mixture, "weights", ([ONE, TWO], [1.5, -0.5]))]
ARGUMENTS += [(t.Mixture, "parts", ([1.0], [1.0]))]
ARGUMENTS += [(t.Best, "parts", ((),), ((1.0,),), ((ORDER,),)), (t.Product, "count", ([(ONE, 0)],))]
ARGUMENTS += [(t.Product, "factors", ([(1.0, 1)],)), (t.Product, "failure", ([(PURE, 2)], 2.0))]
ARGUMENTS += [(t.Product, "rounding", ([(PURE, 2)], 0.0, -1.0), ([(PURE, 2)], 0.0, math.inf))]
ARGUMENTS += [(t.Selected, "mean_trials", (ONE, 0.5, 0.1))]
ARGUMENTS += [(t.Selected, "log_ratio", (ONE, 2.0, -0.1))]
ARGUMENTS += [(t.Selected, "base", (ORDER, 2.0, 0.1), (0.5, 2.0, 0.1))]
ARGUMENTS += [(t.PrivacyLossDistribution, "p", ([0.5, 0.6], [0.5, 0.5]), ([[1.0]], [1.0]))]
ARGUMENTS += [(t.PrivacyLossDistribution, "p", ([1.5, -0.5], [0.5, 0.5]))]
ARGUMENTS += [(t.PrivacyLossDistribution, "q", ([0.5, 0.5], [1.0]))]
ARGUMENTS += [(t.PrivacyLossDistribution.pessimistic, "curve", (0.5, 0.1))]
ARGUMENTS += [(t.grouped, "base", (ORDER, 2))]
ARGUMENTS += [(t.grouped, "size", (ONE, 0), (ONE, -1), (ONE, 1.5), (ONE, True), (ONE, 10**9 + 1))]
ARGUMENTS += [(t.randomised_response, "noise", (1.5, 3))]
ARGUMENTS += [(t.randomised_response, "answers", (0.5, 0), (0.5, 2.5))]
ARGUMENTS += [(t.discrete_laplace, "parameter", (0.0, 1), (100.0, 7))]
ARGUMENTS += [(t.discrete_laplace, "sensitivity", (1.0, -1))]
ARGUMENTS += [(gaussian_below, "tradeoff", (Renamed(1.0),))]
ARGUMENTS += [(ONE, "alpha", (-0.1,), (1.1,), (NAN,)), (ONE.bayes_success, "prior", (1.0,))]
ARGUMENTS += [(ONE.self_compose, "k", (0,)), (PURE.self_compose, "k", (0,))]
ARGUMENTS += [(PURE.self_compose(2).epsilon_bounds, "rtol", (1e-5, 0.0))]
ARGUMENTS += [(PURE.self_compose(2).epsilon, "delta", (-1.0,))]
ARGUMENTS += [(PURE.self_compose(2).rdp, "order", (1.0,)), (t.Grouped(ONE, 2).rdp, "order", (1.0,))]
ARGUMENTS += [(t.Selected(ONE, 2.0, 0.1).rdp, "order", (1.0,))]
GAUSSIAN = ONE.to_dict()
FILES = [("kind", {}), ("kind", {"kind": "other"}), ("mu", {"kind": "gaussian"})]
FILES += [("mu", {"kind": "gaussian", "mu": -1}), ("mu", {"kind": "gaussian", "mu": "nan"})]
FILES += [("weights", {"kind": "mixture", "mus": [1.0], "weights": [0.3]})]
FILES += [("factors", {"kind": "product", "factors": 3}), ("factors", {"kind": "product"})]
FILES += [("probability", {"kind": "poisson_subsampled", "mu": 1.0})]
FILES += [("log_ratio", {"kind": "selected", "base": GAUSSIAN, "mean_trials": 2})]


@every("row", ARGUMENTS)
def test_what_is_out_of_range_is_refused_by_name(row):
    make, field, *all_arguments = row
    for arguments in all_arguments:
        refused(field, make, *arguments)


@every("field, data", FILES)
def test_what_a_file_lacks_is_named(field, data):
    refused(field, t.TradeOff.from_dict, data)


def test_refusals_say_what_is_expected():
    assert "expected a function for both orders" in refused("base", t.grouped, ORDER, 2)
    assert "sum to 1" in refused("p", t.PrivacyLossDistribution, [0.5, 0.6], [0.5, 0.5])
    assert "as many as p" in refused("q", t.PrivacyLossDistribution, [0.5, 0.5], [1.0])
    assert "missing from a selected object" in refused(
        "log_ratio", t.TradeOff.from_dict, FILES[-1][1]
    )
    refused("composition", known_curve, LIAR, "composition")

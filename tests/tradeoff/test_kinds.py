"""The kinds of trade-off functions are a closed table: what others define is shown, never relied on."""

from __future__ import annotations

import inspect
import json
import math
import pickle
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

import pabi
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import (
    ApproxDP,
    Best,
    BoundedRange,
    FixedSizeSubsampled,
    Gaussian,
    Grouped,
    Identity,
    Laplace,
    Mixture,
    PoissonReplaced,
    PoissonSubsampled,
    PrivacyLossDistribution,
    Product,
    RandomAllocation,
    RenyiDP,
    SecretMixture,
    Selected,
    Subsampled,
    TradeOff,
    discrete_laplace,
    grouped,
    randomised_response,
)
from pabi.tradeoff.base import chosen, common, one_order, opposite
from pabi.tradeoff.gaussian_below import gaussian_below
from pabi.tradeoff.kinds import KINDS, known_curve
from support.every_case import every, refused

INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Flattering(Gaussian):
    """A Gaussian that says nothing leaks, under the name of the honest one."""

    kind: ClassVar[str] = "gaussian"

    def epsilon(self, delta: float) -> float:
        return 0.0

    def _delta(self, epsilon: float) -> float:
        return 0.0


@dataclass(frozen=True)
class Renamed(Gaussian):
    kind: ClassVar[str] = "renamed"


LIAR = Flattering(3.0)
ONE, TWO, PURE = Gaussian(1.0), Gaussian(2.0), ApproxDP(1.0)
ORDER = PoissonSubsampled(1.0, 0.1, "remove")
OWN = (
    ApproxDP(1.0, 1e-6),
    ApproxDP(INF, 0.0),
    Best([ONE, PURE]),
    BoundedRange(1.0),
    ONE,
    Gaussian(INF),
    Identity(),
    Grouped(Mixture([ONE, TWO], [0.5, 0.5]), 2),
    Laplace(1.0, 0.5),
    Mixture([ONE, TWO], [0.25, 0.75]),
    Mixture([ONE, Gaussian(INF)], [0.75, 0.25]),
    *(FixedSizeSubsampled(2.0, 1.0, INF, 0.1, way) for way in ("both", "remove", "add")),
    PoissonReplaced(1.0, 0.1),
    PoissonSubsampled(1.0, 0.1),
    PoissonSubsampled(INF, 0.1, "add"),
    PrivacyLossDistribution([0.5, 0.5, 0.0], [0.25, 0.5, 0.25], "add"),
    Product(((BoundedRange(1.0), 2),)),
    Product([(Subsampled(ONE, 0.1), 3), (TWO, 2)], 1e-7),
    ORDER.self_compose(5).compose(PURE),
    RenyiDP(8.0, 0.0),
    RandomAllocation([0.5, 0.25], [1.0, 0.5], [4, 2], opposite=True),
    RandomAllocation([0.9], [0.7], [9], displaces=True, hub=0.7),
    RandomAllocation([0.5, 0.3], [[1.0, 0.7, 0.2], [0.4, 0.9, 1.3]], [5, 2], displaces=True),
    RenyiDP(8.0, INF),
    RenyiDP(2.5, 0.1),
    SecretMixture([2.0, 1.0, 1.0], [0.5, 0.25, 0.25], opposite=True),
    Selected(ONE, 10.0, 0.5),
    Subsampled(ONE, 0.1),
)


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
    every = (cls for cls in descendants(TradeOff) if not inspect.isabstract(cls))
    library = {cls for cls in every if cls.__module__.startswith("pabi.")}
    assert set(KINDS.values()) == library == {type(curve) for curve in OWN}
    assert all(KINDS[cls.kind] is cls for cls in library)
    with pytest.raises(TypeError):
        KINDS["gaussian"] = Flattering


def test_a_class_from_elsewhere_takes_no_name_over():
    assert type(TradeOff.from_dict({"kind": "gaussian", "mu": 1.0})) is Gaussian
    with pytest.raises(InvalidInput, match="kind: expected one of approx_dp, best"):
        TradeOff.from_dict({"kind": "renamed", "mu": 1.0})


@every("curve", OWN)
def test_own_curves_are_known_and_come_back_from_files(curve):
    assert known_curve(curve) is curve
    written = TradeOff.from_dict(json.loads(json.dumps(curve.to_dict(), allow_nan=False)))
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
        assert curve.compose(Identity()).epsilon(1e-5) == pytest.approx(alone, rel=1e-3)
        twice = curve.self_compose(2).epsilon(1e-5)
        assert curve.compose(curve).epsilon(1e-5) == pytest.approx(twice, rel=1e-9)
        both = curve.compose(ONE)
        assert both == ONE.compose(curve)
        assert TradeOff.from_dict(json.loads(json.dumps(both.to_dict()))) == both


REFUSED = {
    "as it is": lambda: known_curve(LIAR),
    "written": LIAR.to_dict,
    "composed": lambda: LIAR.compose(ONE),
    "composed with": lambda: ONE.compose(LIAR),
    "composed with nothing": lambda: Identity().compose(LIAR),
    "composed with itself": lambda: LIAR.self_compose(3),
    "a factor": lambda: Product(((LIAR, 2),)),
    "one of the best": lambda: Best([ONE, LIAR]),
    "a part of a mixture": lambda: Mixture([LIAR], [1.0]),
    "selected from": lambda: Selected(LIAR, 10.0, 0.5),
    "sampled": lambda: Subsampled(LIAR, 0.1),
    "on a grid": lambda: PrivacyLossDistribution.pessimistic(LIAR, 0.1),
    "no curve": lambda: known_curve(0.5),
    "a class": lambda: known_curve(Gaussian),
    "hidden in the best": lambda: known_curve(forged(Best([ONE]), parts=(LIAR,))),
    "hidden in a mixture": lambda: known_curve(forged(Mixture([ONE], [1.0]), parts=(LIAR,))),
    "hidden in a product": forged(Product(((BoundedRange(1.0), 2),)), factors=((LIAR, 1),)).to_dict,
    "hidden in a selection": lambda: known_curve(forged(Selected(ONE, 10.0, 0.5), base=LIAR)),
    "hidden in a sample": lambda: ONE.compose(forged(Subsampled(ONE, 0.1), base=LIAR)),
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
ARGUMENTS = [
    (ApproxDP, "epsilon", (-1.0, 0.0)),
    (ApproxDP, "delta", (1.0, 1.5), (1.0, -0.1)),
    (Gaussian, "mu", (-1.0,)),
    (Laplace, "epsilon", (-1.0,), (INF,), (NAN,)),
    (Laplace, "probability", (1.0, -0.1), (1.0, 1.1)),
    (RenyiDP, "order", (1.0, 0.1), (INF, 0.1)),
    (RenyiDP, "rho", (2.0, -0.1), (2.0, NAN)),
    (PoissonReplaced, "mu", (-1.0, 0.5), (NAN, 0.5), ("1", 0.5)),
    (PoissonReplaced, "probability", (1.0, 1.5)),
    (PoissonSubsampled, "mu", (-1.0, 0.1)),
    (PoissonSubsampled, "probability", (1.0, NAN)),
    (PoissonSubsampled, "direction", (1.0, 0.1, "sideways")),
    (FixedSizeSubsampled, "norm", (0.0, 1, 1, 0.1)),
    (FixedSizeSubsampled, "other", (1, -1, 1, 0.1)),
    (FixedSizeSubsampled, "apart", (1, 1, "x", 0.1)),
    (Subsampled, "base", (PURE, 0.1)),
    (Subsampled, "probability", (ONE, 1.5)),
    (SecretMixture, "means", ([-1.0], [1.0]), ([21.0], [1.0]), ([NAN], [1.0])),
    (SecretMixture, "weights", ([1.0], [0.5]), ([1.0, 2.0], [1.0]), ([], [])),
    (SecretMixture, "opposite", ([1.0], [1.0], 1)),
    (RandomAllocation, "shares", ([0.6, 0.6], [1.0, 1.0], [2, 2]), ([], [], []), ([0.5], [], [1])),
    (RandomAllocation, "shares", ([-0.5], [1.0], [1]), ([NAN], [1.0], [1]), ([0.0], [1.0], [1])),
    (RandomAllocation, "sizes", ([0.5], [-1.0], [1]), ([0.5], [NAN], [1])),
    (RandomAllocation, "counts", ([0.5], [1.0], [0]), ([0.5], [1.0], [1.5])),
    (RandomAllocation, "opposite", ([0.5], [1.0], [1], 1)),
    (RandomAllocation, "displaces", ([0.5], [1.0], [1], False, None)),
    (
        RandomAllocation,
        "hub",
        ([0.9], [0.5], [9], False, True, -1.0),
        ([0.9], [0.5], [9], False, False, 0.5),
    ),
    (RandomAllocation, "shares", ([1.0], [0.5], [9], False, True, 0.5)),
    (RandomAllocation, "sizes", ([0.5, 0.4], [[0.5, 0.4], [0.3]], [5, 4])),
    (Mixture, "weights", ([], []), ([ONE], [0.5]), ([ONE, TWO], [1.0]), ([ONE], [NAN])),
    (Mixture, "weights", ([ONE, TWO], [1.5, -0.5])),
    (Mixture, "parts", ([1.0], [1.0])),
    (Best, "parts", ((),), ((1.0,),), ((ORDER,),)),
    (Product, "count", ([(ONE, 0)],)),
    (Product, "factors", ([(1.0, 1)],)),
    (Product, "failure", ([(PURE, 2)], 2.0)),
    (Selected, "mean_trials", (ONE, 0.5, 0.1)),
    (Selected, "log_ratio", (ONE, 2.0, -0.1)),
    (Selected, "base", (ORDER, 2.0, 0.1), (0.5, 2.0, 0.1)),
    (PrivacyLossDistribution, "p", ([0.5, 0.6], [0.5, 0.5]), ([[1.0]], [1.0])),
    (PrivacyLossDistribution, "p", ([1.5, -0.5], [0.5, 0.5])),
    (PrivacyLossDistribution, "q", ([0.5, 0.5], [1.0])),
    (PrivacyLossDistribution.pessimistic, "curve", (0.5, 0.1)),
    (grouped, "base", (ORDER, 2)),
    (grouped, "size", (ONE, 0), (ONE, -1), (ONE, 1.5), (ONE, True), (ONE, 10**9 + 1)),
    (randomised_response, "noise", (1.5, 3)),
    (randomised_response, "answers", (0.5, 0), (0.5, 2.5)),
    (discrete_laplace, "parameter", (0.0, 1), (100.0, 7)),
    (discrete_laplace, "sensitivity", (1.0, -1)),
    (gaussian_below, "tradeoff", (Renamed(1.0),)),
    (ONE, "alpha", (-0.1,), (1.1,), (NAN,)),
    (ONE.bayes_success, "prior", (1.0,)),
    (ONE.self_compose, "k", (0,)),
    (PURE.self_compose, "k", (0,)),
    (PURE.self_compose(2).epsilon_bounds, "rtol", (1e-5, 0.0)),
    (PURE.self_compose(2).epsilon, "delta", (-1.0,)),
    (PURE.self_compose(2).rdp, "order", (1.0,)),
    (Grouped(ONE, 2).rdp, "order", (1.0,)),
    (Selected(ONE, 2.0, 0.1).rdp, "order", (1.0,)),
]
GAUSSIAN = ONE.to_dict()
FILES = [
    ("kind", {}),
    ("kind", {"kind": "other"}),
    ("mu", {"kind": "gaussian"}),
    ("mu", {"kind": "gaussian", "mu": -1}),
    ("mu", {"kind": "gaussian", "mu": "nan"}),
    ("weights", {"kind": "mixture", "mus": [1.0], "weights": [0.3]}),
    ("factors", {"kind": "product", "factors": 3}),
    ("factors", {"kind": "product"}),
    ("probability", {"kind": "poisson_subsampled", "mu": 1.0}),
    ("log_ratio", {"kind": "selected", "base": GAUSSIAN, "mean_trials": 2}),
]


@every("row", ARGUMENTS)
def test_what_is_out_of_range_is_refused_by_name(row):
    make, field, *all_arguments = row
    for arguments in all_arguments:
        refused(field, make, *arguments)


@every("field, data", FILES)
def test_what_a_file_lacks_is_named(field, data):
    refused(field, TradeOff.from_dict, data)


def test_refusals_say_what_is_expected():
    assert "expected a function for both orders" in refused("base", grouped, ORDER, 2)
    assert "sum to 1" in refused("p", PrivacyLossDistribution, [0.5, 0.6], [0.5, 0.5])
    assert "as many as p" in refused("q", PrivacyLossDistribution, [0.5, 0.5], [1.0])
    assert "missing from a selected object" in refused(
        "log_ratio", TradeOff.from_dict, FILES[-1][1]
    )
    refused("composition", known_curve, LIAR, "composition")

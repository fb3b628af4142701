"""The kinds of trade-off functions are a closed table: what others define is shown, never relied on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

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
    RenyiDP,
    SecretMixture,
    Selected,
    Subsampled,
    TradeOff,
)
from pabi.tradeoff.directions import chosen, common, one_order, opposite
from pabi.tradeoff.kinds import KINDS, known_curve


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
OWN = (
    ApproxDP(1.0, 1e-6),
    Best([Gaussian(1.0), ApproxDP(1.0)]),
    BoundedRange(1.0),
    Gaussian(1.0),
    Grouped(Mixture([Gaussian(1.0), Gaussian(2.0)], [0.5, 0.5]), 2),
    Laplace(1.0, 0.5),
    Mixture([Gaussian(1.0), Gaussian(2.0)], [0.5, 0.5]),
    FixedSizeSubsampled(1.0, 0.5, 0.7, 0.1),
    PoissonReplaced(1.0, 0.1),
    PoissonSubsampled(1.0, 0.1),
    PrivacyLossDistribution([0.75, 0.25], [0.25, 0.75]),
    Product(((BoundedRange(1.0), 2),)),
    RenyiDP(8.0, 0.5),
    SecretMixture([0.5, 1.0], [0.5, 0.5]),
    Selected(Gaussian(1.0), 10.0, 0.5),
    Subsampled(Gaussian(1.0), 0.1),
)


def forged(curve: TradeOff, **fields: Any) -> TradeOff:
    """`curve` with fields that its constructor would have refused."""
    for name, value in fields.items():
        object.__setattr__(curve, name, value)
    return curve


def descendants(cls: type) -> Iterator[type]:
    for sub in cls.__subclasses__():
        yield sub
        yield from descendants(sub)


def test_the_table_holds_every_class_of_the_library():
    library = {cls for cls in descendants(TradeOff) if cls.__module__.startswith("pabi.")}
    assert set(KINDS.values()) == library == {type(curve) for curve in OWN}
    assert all(KINDS[cls.kind] is cls for cls in library)


def test_the_table_cannot_be_written_to():
    with pytest.raises(TypeError):
        KINDS["gaussian"] = Flattering  # type: ignore[index]


def test_a_class_from_elsewhere_takes_no_name_over():
    assert type(TradeOff.from_dict({"kind": "gaussian", "mu": 1.0})) is Gaussian


def test_a_new_kind_is_not_readable():
    with pytest.raises(InvalidInput, match="kind: expected one of approx_dp, best"):
        TradeOff.from_dict({"kind": "renamed", "mu": 1.0})


@pytest.mark.parametrize("curve", OWN, ids=lambda curve: curve.kind)
def test_own_curves_are_known_and_come_back_from_their_dictionaries(curve: TradeOff):
    assert known_curve(curve) is curve
    assert TradeOff.from_dict(curve.to_dict()) == curve


REFUSED: dict[str, Callable[[], Any]] = {
    "as it is": lambda: known_curve(LIAR),
    "written": LIAR.to_dict,
    "composed": lambda: LIAR.compose(Gaussian(1.0)),
    "composed with": lambda: Gaussian(1.0).compose(LIAR),
    "composed with nothing": lambda: Identity().compose(LIAR),
    "composed with itself": lambda: LIAR.self_compose(3),
    "a factor": lambda: Product(((LIAR, 2),)),
    "one of the best": lambda: Best([Gaussian(1.0), LIAR]),
    "a part of a mixture": lambda: Mixture([LIAR], [1.0]),
    "selected from": lambda: Selected(LIAR, 10.0, 0.5),
    "sampled": lambda: Subsampled(LIAR, 0.1),
    "on a grid": lambda: PrivacyLossDistribution.pessimistic(LIAR, 0.1),
    "no curve": lambda: known_curve(0.5),
    "a class": lambda: known_curve(Gaussian),
    "hidden in the best": lambda: known_curve(forged(Best([Gaussian(1.0)]), parts=(LIAR,))),
    "hidden in a mixture": lambda: known_curve(
        forged(Mixture([Gaussian(1.0)], [1.0]), parts=(LIAR,))
    ),
    "hidden in a product": lambda: forged(
        Product(((BoundedRange(1.0), 2),)), factors=((LIAR, 1),)
    ).to_dict(),
    "hidden in a selection": lambda: known_curve(
        forged(Selected(Gaussian(1.0), 10.0, 0.5), base=LIAR)
    ),
    "hidden in a sample": lambda: Gaussian(1.0).compose(
        forged(Subsampled(Gaussian(1.0), 0.1), base=LIAR)
    ),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_class_from_elsewhere_is_refused(how: str):
    with pytest.raises(InvalidInput, match="expected (a trade-off function|.*Gaussian)") as refusal:
        REFUSED[how]()
    assert "\n" not in str(refusal.value)


def test_the_refusal_names_the_field():
    with pytest.raises(InvalidInput) as refusal:
        known_curve(LIAR, "composition")
    assert refusal.value.field == "composition"


def test_a_class_from_elsewhere_is_shown_and_never_the_guarantee():
    run = pabi.NoisyIteration(1.0, 1.0, 1.0, steps=3)
    shown = run.explain(1e-5, also=[lambda described: LIAR])
    assert [row.epsilon for row in shown if row.method == "<lambda>"] == [0.0]
    assert shown.best is not None
    assert shown.best.epsilon(1e-5) > 0.0


@pytest.mark.parametrize(
    "read",
    [
        opposite,
        one_order,
        lambda direction: chosen(direction, 1, 2),
    ],
    ids=["opposite", "one_order", "chosen"],
)
def test_no_other_direction_is_taken_for_a_usual_one(read: Callable[[Any], Any]):
    with pytest.raises(AssertionError, match="sideways"):
        read("sideways")


def test_orders_do_not_mix():
    assert common(["symmetric", "remove", "symmetric"]) == "remove"
    assert common([]) == "symmetric"
    with pytest.raises(InvalidInput, match=r"orientation: .*\['add', 'remove'\]"):
        common(["remove", "add"])

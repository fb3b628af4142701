"""The table of kinds: bad input, each row against its constructor, and moduli of fields and of
separable losses against instances."""

import inspect
import math
from functools import partial

from pabi import Cyclic, Loss, NoisySGD
from pabi.describe.losses import KINDS
from support.every_case import every, refused, refuses

WS, DI, SA, LI = Loss.weakly_smooth, Loss.dissipative, Loss.saddle, Loss.lipschitz
PAIRS = [
    *([(exponent, 1.0)] for exponent in (1.1, -0.1, math.nan, "0.5")),
    *([(0.5, constant)] for constant in (0.0, -1.0, math.inf, "1", True)),
    *([], (), 0.5, {0.5: 1.0}, "01", "half", [0.5, 1.0], None),
    *([(0.5, 1.0, 2.0)], [(0.5, 1.0), (2.0, 1.0)]),
]
MISFITS = [("saddle", (("constant", 1.0), ("glm", True)), "glm")]
MISFITS += [("saddle", (("smoothness", 1.0),), "constant")]
MISFITS += [("lipschitz", (("constant", 1.0), ("gradient_bound", 1.0)), "gradient_bound")]
MISFITS += [("dissipative", (("offset", 1.0), ("rate", 1.0)), "smoothness")]
MISFITS += [("weakly_smooth", (), "pairs"), ("weakly smooth", (("pairs", [(0.5, 1.0)]),), "kind")]


def test_combinations_that_there_are_not_are_refused():
    for kind, given, field in MISFITS:
        message = refused(field, Loss, kind, given)
        assert message.startswith(f"{field}: "), message


def run_of(**changes):
    fields = {"loss": Loss.convex(1.0), "n": 4, "batches": Cyclic(2), "steps": 4}
    fields |= {"step_size": 0.1, "noise_std": 1.0, "clip_norm": 1.0}
    return NoisySGD(**{**fields, **changes})


def test_other_ways_to_clip_are_refused():
    for clipping in ("coordinate", "Norm", "", None, 1, True, ["norm"]):
        for make in (run_of, partial(Loss.convex(1.0).modulus, 0.1, 1.0, 1.0)):
            message = refused("clipping", make, clipping=clipping)
            assert "norm" in message
            assert "coordinates" in message
    for changes in ({"gradient_sensitivity": 1.0}, {"loss": Loss.convex(1.0, gradient_bound=1.0)}):
        refused("clip_norm", run_of, clipping="coordinates", clip_norm=None, **changes)


def test_pairs_are_sorted_and_the_least_constant_is_kept():
    loss = WS([[0.7, 5.0], (0.2, 1.0), (0.7, 4.0)])
    assert dict(loss.parameters)["pairs"] == ((0.2, 1.0), (0.7, 4.0))
    assert Loss.from_dict(loss.to_dict()) == loss
    for other in (SA(1.0, 2.0, 0.1), SA(1.0), DI(0.0, 1.0, 2.0), LI(2.0, separable=True)):
        assert Loss.from_dict(other.to_dict()) == other


# The table. Of each kind a loss with all its parameters, and whether it has a potential, is scalable, and has
# linear moduli that its curvature explains.

STATED = {"gradient_bound": 3.0, "glm": True, "separable": True}
EXAMPLES = {
    "logistic": (Loss.logistic(1.5), True, True, True),
    "softmax": (Loss.softmax(1.5, residual_cap=0.25), True, True, True),
    "one_vs_rest": (Loss.one_vs_rest(1.5, 3, 0.7), True, True, True),
    "squared": (Loss.squared(1.5, 0.7), True, True, True),
    "huber": (Loss.huber(1.5, 0.7), True, True, True),
    "vector_huber": (Loss.vector_huber(1.5, 0.7), True, True, True),
    "smoothed_hinge": (Loss.smoothed_hinge(1.5, 0.7), True, True, True),
    "poisson": (Loss.poisson(1.5, 0.7, 9.0), True, True, True),
    "gamma": (Loss.gamma(1.5, 3.0), True, True, True),
    "convex": (Loss.convex(2.0, **STATED), True, True, True),
    "strongly_convex": (Loss.strongly_convex(0.5, 2.0, **STATED), True, False, True),
    "nonconvex": (Loss.nonconvex(2.0, **STATED), True, True, True),
    "weakly_convex": (Loss.weakly_convex(0.5, 2.0, **STATED), True, True, True),
    "lipschitz": (LI(2.0, glm=True, separable=True), True, True, True),
    "weakly_smooth": (WS([(0.3, 1.0), (0.7, 2.0)], **STATED), True, True, True),
    "holder": (Loss.holder(0.5, 2.0, **STATED), True, False, False),
    "dissipative": (DI(0.1, 0.5, 2.0, **STATED), True, False, False),
    "saddle": (SA(2.0, 5.0), False, True, True),
    "unknown": (Loss.unknown(gradient_bound=3.0), True, True, True),
}
# `Loss.unknown` does not offer what would say nothing there.
NOT_OFFERED = {"unknown": {"glm", "separable"}}


def test_every_kind_has_an_example():
    assert set(EXAMPLES) == set(KINDS)
    assert all(loss.kind == kind for kind, (loss, *_) in EXAMPLES.items())


@every("kind", KINDS)
def test_every_kind_has_a_constructor_with_its_parameters(kind):
    row, constructor = KINDS[kind], getattr(Loss, kind)
    offered = inspect.signature(constructor).parameters
    required = [name for name, p in offered.items() if p.default is p.empty]
    assert required == list(row.required)
    assert {*offered} | NOT_OFFERED.get(kind, set()) == {*row.required, *row.optional, "l2"}
    assert all(offered[name].default in (None, False) for name in row.optional if name in offered)
    assert constructor.__doc__
    loss = EXAMPLES[kind][0]
    assert constructor(**dict(loss.parameters)) == loss
    assert Loss.from_dict(loss.with_l2(0.5).to_dict()) == loss.with_l2(0.5)
    assert list(dict(loss.parameters)) == [name for name in offered if name != "l2"]


NO_NUMBERS = [math.nan, math.inf, -math.inf, "1", True, 1j]


def bad_values(name, value):
    """What is no value of this parameter, by a value that is one."""
    if isinstance(value, bool):
        return ["yes", 1]
    if isinstance(value, tuple):
        return PAIRS
    if name in ("predictor_bound", "l2"):
        return NO_NUMBERS + [-1.0] * (name == "l2")
    return [*NO_NUMBERS, -1e-9, *([] if name in ("offset", "exponent") else [0.0])]


@every("kind", KINDS)
def test_bad_values_of_every_parameter_are_refused_by_its_name(kind):
    given, make = dict(EXAMPLES[kind][0].parameters), getattr(Loss, kind)
    for name, value in {**given, "l2": 0.0}.items():
        missing = [None] if name in KINDS[kind].required else []
        for bad in (*bad_values(name, value), *missing):
            message = refused(name, make, **given | {name: bad})
            assert message.startswith((f"{name}: expected", f"{name}: missing")), message
    refuses(EXAMPLES[kind][0].with_l2, {"l2": bad_values("l2", 0.0)})


@every("kind", [kind for kind in KINDS if kind != "unknown"])
def test_every_kind_says_what_its_user_must_stand_behind(kind):
    """But for an unknown loss, which asks for nothing."""
    loss = EXAMPLES[kind][0]
    said = loss.sentences
    assert said[0].startswith(f"each record's loss ({kind}: ")
    # Every number that a guarantee may rest on is in it.
    for name, value in loss.parameters:
        assert f"{name} = {value!r}" in said[0]
    facts = [loss.curvature, loss.dissipativity]
    for fact in (repr(x) for pair in facts if pair is not None for x in pair):
        assert any(fact in sentence for sentence in said)
    assert EXAMPLES["unknown"][0].sentences == ()


@every("kind", KINDS)
def test_what_other_modules_ask_of_a_kind(kind):
    """The least curvature is 0 for all that is convex or monotone, and for nothing else."""
    loss, *said = EXAMPLES[kind]
    assert said == [loss.has_potential, loss.scalable, loss.slopes_say_all]
    assert loss.least_curvature == LEAST.get(kind, 0.0)


LEAST = {"strongly_convex": 0.5, "nonconvex": -2.0, "weakly_convex": -0.5, "holder": None}
LEAST |= {"dissipative": -2.0, "unknown": None}

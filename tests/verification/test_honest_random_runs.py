"""What the library proves of random runs and iterations the checker accepts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

import pabi
from pabi import (
    BallsInBins,
    Cyclic,
    FullBatch,
    InvalidInput,
    Loss,
    NoisyIteration,
    NoisySGD,
    NotApplicable,
    Reshuffle,
    ShuffleOnce,
)
from pabi.describe.batches import KnownUses
from support.certificates import DELTA

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


positive = st.floats(0.05, 5.0)


@st.composite
def losses(draw):
    l2 = draw(st.sampled_from([0.0, 0.01, 0.3]))
    norm = draw(st.floats(0.2, 3.0))
    kind = draw(st.integers(0, 8))
    if kind == 0:
        return Loss.logistic(norm, l2)
    if kind == 1:
        return Loss.softmax(norm, l2)
    if kind == 2:
        return Loss.squared(norm, draw(positive), l2)
    if kind == 3:
        return Loss.huber(norm, draw(positive), l2)
    if kind == 4:
        return Loss.poisson(norm, draw(st.floats(-1.0, 1.0)), draw(positive), l2)
    if kind == 5:
        return Loss.nonconvex(draw(st.floats(0.01, 2.0)), l2, glm=draw(st.booleans()))
    if kind == 6:
        return Loss.strongly_convex(norm / 10, norm, l2)
    if kind == 7:
        return Loss.unknown(l2)
    return Loss.convex(norm, l2)


def _scheme(draw, batches, size, n):
    if batches is FullBatch:
        return FullBatch()
    if batches is BallsInBins:
        return BallsInBins(size, redraw=draw(st.sampled_from(["once", "epoch"])))
    spare = draw(st.sampled_from([0, 0, n - size, (n - size) // 2]))
    return batches(size) if batches is Cyclic else batches(size, spare)


@st.composite
def runs(draw, schemes=(Cyclic, ShuffleOnce, Reshuffle, BallsInBins, FullBatch)):
    loss = draw(losses())
    n = draw(st.integers(1, 30))
    batches = draw(st.sampled_from(schemes))
    size = draw(st.integers(1, n))
    steps = draw(st.integers(1, 40))

    def schedule(low, high):
        kind = draw(st.sampled_from(["constant", "constant", "any", "rising", "falling"]))
        if kind == "constant":
            return draw(st.floats(low, high))
        values = draw(st.lists(st.floats(low, high), min_size=steps, max_size=steps))
        return values if kind == "any" else sorted(values, reverse=kind == "falling")

    fields = {"noise_std": schedule(1e-3, 10.0)}
    if loss.gradient_bound is not None:
        fields["clip_norm"] = draw(st.none() | positive)
        if draw(st.booleans()):
            fields = {"noise_multiplier": fields.pop("noise_std"), **fields}
    elif draw(st.booleans()):
        fields["clip_norm"] = draw(positive)
    else:
        fields["gradient_sensitivity"] = draw(positive)
    return NoisySGD(
        loss,
        n=n,
        batches=_scheme(draw, batches, size, n),
        steps=steps,
        step_size=schedule(1e-3, 3.0),
        adjacency=draw(st.sampled_from(["replace_one", "zero_out"])),
        diameter=draw(st.none() | st.floats(1e-3, 10.0)),
        cooldown_steps=draw(st.integers(0, min(5, steps - 1))),
        update=draw(st.sampled_from(["sgd"] * 9 + ["other"])),
        release=draw(st.sampled_from(["last"] * 9 + ["path"])),
        **fields,
    )


@st.composite
def iterations(draw):
    steps = draw(st.integers(1, 25))

    def column(*values):
        one = st.sampled_from(values) | st.floats(1e-3, 2.0)
        return draw(one | st.lists(one, min_size=steps, max_size=steps))

    return NoisyIteration(
        contraction=column(0.0, 1.0, 0.5),
        step_sensitivity=column(0.0, 1.0),
        step_noise_std=column(0.0, 1.0),
        diameter=draw(st.none() | st.floats(0.01, 10.0)),
        start=draw(st.sampled_from([0.0, 0.0, 1.0, 3.5])),
        steps=steps,
    )


RELAXED = settings(
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@RELAXED
@given(runs())
def test_runs(run):
    g = run.guarantee(delta=DELTA)
    verdict = pabi.verify(g.to_json())
    assert verdict.ok, verdict.reason
    assert verdict.scope == "run"


@RELAXED
@given(runs(schemes=(Cyclic, FullBatch)), st.integers(0, 29))
def test_positions(run, position):
    assert isinstance(run.order, KnownUses)
    position %= run.steps_per_epoch
    g = run.guarantee(delta=DELTA, position=position)
    verdict = pabi.verify(g.to_json())
    assert verdict.ok, verdict.reason
    assert verdict.mu == g.mu <= run.guarantee(delta=DELTA).mu * (1 + 1e-12)


@RELAXED
@given(iterations())
def test_iterations(it):
    try:
        with np.errstate(divide="ignore"):
            g = it.guarantee(delta=DELTA)
    except NotApplicable:
        assert it.start > 0.0
        reject()
    verdict = pabi.verify(g.to_json())
    assert verdict.ok, verdict.reason
    assert verdict.scope == "iteration"


@settings(RELAXED, max_examples=settings().max_examples // 4)
@given(runs(), runs())
def test_composed(first, second):
    a, b = first.guarantee(delta=DELTA), second.guarantee(delta=DELTA)
    if a.adjacency != b.adjacency:
        with pytest.raises(InvalidInput):
            pabi.compose(a, b)
    else:
        verdict = pabi.verify(pabi.compose(a, b))
        assert verdict.ok, verdict.reason

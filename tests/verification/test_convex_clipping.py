"""Certificates of runs on convexly clipped losses: honest ones verify, altered ones do not; and what the
checker derives of such a loss, against the accountant, whose own tests have the truth."""

import itertools
from fractions import Fraction

import pytest
from flint import fmpq

import pabi
from pabi import Cyclic, Loss, NoisySGD
from pabi.describe.files import from_dict
from pabi.verification.arithmetic import Refused, exact, fraction_of
from pabi.verification.derivation import ClippedGradients
from pabi.verification.losses import clipped_facts_of
from support.certificates import forged, refused

R = 1.7
LOSSES = {
    "logistic": Loss.logistic(R, l2=0.05),
    "softmax": Loss.softmax(R),
    "softmax, capped": Loss.softmax(R, residual_cap=0.3),
    "one_vs_rest": Loss.one_vs_rest(R, 4),
    "one_vs_rest, hinge": Loss.one_vs_rest(R, 4, 0.4),
    "squared": Loss.squared(R, 0.7, l2=0.05),
    "huber": Loss.huber(R, 0.7),
    "vector_huber": Loss.vector_huber(R, 0.7),
    "smoothed_hinge": Loss.smoothed_hinge(R, 0.4),
    "poisson": Loss.poisson(R, 1.5, 3.0),
    "gamma": Loss.gamma(R, 2.0),
}
NORMS = [1e-3, 0.3, 0.85, 1.2, 2.5]

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


def run_of(loss, batches=None, **changes):
    settings = {"epochs": 3, "step_size": 0.6, "noise_std": 0.5, "clip_norm": 0.3}
    return NoisySGD(
        loss, n=40, batches=batches or Cyclic(8), clipping="residual", **settings | changes
    )


# Certificates.


# Of two diagonals, so that every loss has a scheme whose analysis rests on its slope.


@pytest.mark.parametrize(
    ("loss", "edit"),
    [
        (Loss.logistic(R), "clip_norm = 0.31"),
        (Loss.logistic(R), 'clipping = "norm"'),  # the same steps, but curvature R²/4
        (Loss.softmax(R), 'clipping = "norm"'),
        (Loss.one_vs_rest(R, 4), 'clipping = "norm"'),
        (Loss.vector_huber(R, 0.7), 'clipping = "norm"'),
        (Loss.poisson(R, 1.5, 3.0), 'clipping = "norm"'),
        (Loss.softmax(R), "loss.feature_norm = 1.9"),
        (Loss.softmax(R, residual_cap=0.1), "loss.residual_cap = 0.2"),
        (Loss.gamma(R, 0.1), "loss.residual_bound = 0.2"),
        (Loss.poisson(R, 1.5, 3.0), "loss.count_bound = 3.5"),
        (Loss.smoothed_hinge(R, 0.4), "loss.smoothing = 0.3"),
        (Loss.one_vs_rest(R, 4, 0.4), "loss.smoothing = 0.3"),
    ],
    ids=lambda v: str(v)[:40],
)
def test_these_cost_more_and_are_refused(loss, edit):
    """At the longest step that does not expand; so that the test above compares something."""
    step_size = 2.0 / loss.effective_curvature(0.3, "residual")[1]
    guarantee = run_of(loss, step_size=step_size).guarantee(1e-3)
    payload = guarantee.certificate.payload
    assert pabi.verify(payload).ok
    changed = forged(payload, f"run.{edit}")
    assert from_dict(changed["run"]).guarantee(1e-3).epsilon(1e-3) > guarantee.epsilon(1e-3)
    refused(changed)


@pytest.mark.parametrize(
    "loss", [Loss.convex(1.0), Loss.lipschitz(1.0), Loss.nonconvex(1.0)], ids=str
)
def test_the_checker_knows_no_residual_of_generic_losses(loss):
    with pytest.raises(Refused, match="^clipping: the checker knows no residual"):
        clipped_facts_of(loss, exact(0.5))


# What is derived.


def test_checker_and_accountant_agree():
    """To 10⁻¹², the accountant above: it rounds up. (What is true, `tests/describe` has.)"""
    close = 1 + Fraction(1, 10**12)
    for (name, loss), norm in itertools.product(LOSSES.items(), NORMS):
        own = clipped_facts_of(loss, exact(norm))
        lo, hi = (fraction_of(h) for h in own.curvature)
        said = loss.effective_curvature(norm, "residual")
        assert lo == said[0] == 0.0
        assert hi / close <= Fraction(said[1]) <= hi * close, (name, norm)
        bound = run_of(loss, clip_norm=norm).record_gradient_bound
        assert float(fraction_of(own.bound)) == pytest.approx(bound, rel=1e-12), (name, norm)
        assert own.convex
        assert own.scalar is loss.glm


def test_the_margin_of_a_step_at_the_bound_is_exact():
    """A step of 2/M on the clipped logistic loss has slope 1 in the checker, and a longer one more."""
    run = run_of(Loss.logistic(2.0), clip_norm=0.5)
    gradients = ClippedGradients(run)
    m = fmpq(1, 2) * (2 - fmpq(1, 2))
    assert gradients.curvature == (0, m)
    assert gradients.slope(2 / m, fmpq(1)) == 1
    assert gradients.slope(3 / m, fmpq(1)) == 2
    assert gradients.bound == fmpq(1, 2)
    assert not gradients.clips

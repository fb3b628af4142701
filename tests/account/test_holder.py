"""Losses with Hölder gradients that need not be convex: their moduli, between what is known at both ends, and
what is proven of runs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pabi
import pabi.account.analyses
from pabi import Loss, NoisySGD
from pabi.describe.moduli import Modulus
from support.certificates import forged, refused
from support.every_case import every

DELTA = 1e-5
EXPONENTS = (0.05, 0.3, 0.5, 0.9, 0.999)


def a_run(exponent=0.9, constant=1.0, **changes):
    given = {"n": 1000, "batches": pabi.Cyclic(100), "steps": 2000, "step_size": 0.01}
    given |= {"noise_std": 0.5, "clip_norm": 1.0, "prox": pabi.prox.ball(0.05)}
    return NoisySGD(Loss.holder(exponent, constant), **{**given, **changes})


@pytest.mark.parametrize("product", [1e-6, 0.1, 40.0])
@every("exponent", EXPONENTS)
@every(["l2", "fraction"], [(0.0, Fraction(1)), (0.0, Fraction(2, 5)), (0.3, Fraction(1))])
def test_tangents_lie_above_the_power_and_close_to_it(exponent, product, l2, fraction):
    """At most 2 % of eMδ^p too high: they touch 0.75 apart in ln δ, and p(1 − p)·0.375²/2 < 2 %."""
    modulus = Loss.holder(exponent, product, l2=l2).modulus(1.0, None, fraction)
    for log in np.linspace(np.log(1e-9), np.log(1e9), 100):
        delta = float(np.exp(log))
        kept, power = (1.0 - l2) * delta, float(fraction) * product * delta**exponent
        assert kept + power <= modulus(delta) * (1 + 1e-15)
        assert modulus(delta) <= (kept + 1.02 * power) * (1 + 1e-11)


def test_outside_the_grid_it_is_only_larger():
    for exponent in EXPONENTS:
        modulus = Loss.holder(exponent, 1.0).modulus(0.1)
        for delta in (1e-300, 1e-30, 1e-12, 1e12, 1e30, 1e300):
            assert modulus(delta) >= (delta + 0.1 * delta**exponent) * (1 - 1e-12)


def test_at_both_ends_it_is_what_is_known():
    smooth = Loss.holder(1.0, 3.0)
    assert smooth.curvature == (-3.0, 3.0) == Loss.nonconvex(3.0).curvature
    assert smooth.modulus(0.1) == Loss.nonconvex(3.0).modulus(0.1)
    assert Loss.holder(0.0, 3.0).modulus(0.1) == Modulus.affine(1.0, 3.0 * 0.1)
    assert Loss.holder(0.0, 3.0).curvature is None


def test_nearly_smooth_losses_cost_nearly_as_much():
    """The solver's path for jumps that do not matter is that of slopes."""
    nonconvex = replace(a_run(), loss=Loss.nonconvex(1.0), clip_norm=None, gradient_sensitivity=2.0)
    least = nonconvex.guarantee(DELTA).mu
    close = replace(nonconvex, loss=Loss.holder(0.999, 1.0)).guarantee(DELTA).mu
    assert least <= close <= 1.02 * least


def test_hiding_the_path_pays():
    explained = a_run().explain(DELTA)
    assert explained.best.method == "nonlinear shifts"
    assert explained.best.epsilon(DELTA) < 0.4 * a_run(update="other").guarantee(DELTA).epsilon(
        DELTA
    )


def test_a_clip_leaves_it():
    loss = Loss.holder(0.5, 1.0)
    for clipping in ("norm", "coordinates"):
        clipped = loss.modulus(0.1, clip_norm=0.25, clipping=clipping)
        for delta in (1e-4, 1e-2, 1.0):
            power, bounded = loss.modulus(0.1)(delta), delta + 2 * 0.1 * 0.25
            assert clipped(delta) == pytest.approx(min(power, bounded), rel=1e-14)


def test_of_a_rougher_loss_certificates_prove_nothing():
    payload = a_run().guarantee(DELTA).certificate.payload
    said = pabi.verify(payload).assumptions
    assert any("gradients that differ by at most 1.0·‖x − y‖^0.9" in a for a in said)
    for edit in ("exponent = 0.5", "exponent = 0.8", "constant = 2.0", 'kind = "weakly_convex"'):
        refused(forged(payload, f"run.loss.{edit}"))
    assert pabi.verify(forged(payload, "run.loss.constant = 0.9")).ok  # a smoother one

"""The exponential of link functions: an error that follows from its steps, and the truth."""

import math

import mpmath
import numpy as np
from flint import arb, ctx

from pabi.numbers import exponential as own
from pabi.numbers.exponential import OFF, exponential
from pabi.numbers.rounding import HALF_ULP


def test_the_error_follows_from_the_steps():
    """Of t, of the terms left out, and of Horner's scheme, each coefficient and operation rounded once."""
    with ctx.workprec(200):
        assert abs(arb(own._HIGH) + arb(own._LOW) - arb(2).log()) < arb(2) ** -80
        half = float(arb(2).log() / 2)
    # A whole number of at most 11 bits times 32 bits is exact, and so is the difference, of numbers as near.
    assert int(own._HIGH * 2.0**32) == own._HIGH * 2.0**32
    most = half + 1e-12  # the next whole number is found with doubles
    farthest = math.ceil(710.0 / math.log(2.0))
    of_t = 1024 * 2.0**-80 + (HALF_ULP * farthest * own._LOW + HALF_ULP * most)
    size = error = 0.0
    for c in [*own._COEFFICIENTS, 1.0, 1.0]:
        whole = float(c) in (0.5, 1.0)
        sum_of_both = size * most + c
        error = (error + HALF_ULP * size) * most + HALF_ULP * (sum_of_both + (0.0 if whole else c))
        size = sum_of_both
    terms = len(own._COEFFICIENTS) + 2
    left_out = most**terms / math.factorial(terms) * math.exp(most)
    relative = (error + left_out) / math.exp(-most) + of_t
    assert relative * (1.0 + 1e-9) < OFF
    assert relative > 0.2 * OFF


def test_it_is_near_the_truth_everywhere():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-708.0, 709.0, 1500), rng.normal(size=1500), [709.0, -708.0]])
    exact = [mpmath.exp(mpmath.mpf(each)) for each in x.tolist()]
    off = [abs(mpmath.mpf(y) / e - 1) for y, e in zip(exponential(x).tolist(), exact, strict=True)]
    assert max(off) < OFF


def test_what_is_far_out_is_cut_off():
    ends = exponential(
        np.array([-800.0, -708.0, 709.0, 710.0, math.inf, -math.inf, math.nan, 0.0, -0.0])
    )
    least, most = ends[1:3]
    assert ends[[0, 5]].tolist() == [least, least]
    assert ends[[3, 4]].tolist() == [most, most]
    assert np.isnan(ends[6])
    assert ends[7:].tolist() == [1.0, 1.0]
    x = np.arange(6.0).reshape(2, 3)
    assert exponential(x, out=x) is x
    assert np.array_equal(x[1], exponential(np.array([3.0, 4.0, 5.0])))
    # Wherever a number stands, in whatever memory.
    far = np.random.default_rng(1).normal(size=(70, 90))
    for other in (np.asfortranarray(far), np.repeat(far, 2, axis=1)[:, ::2]):
        assert np.array_equal(exponential(other), exponential(far))
    assert np.array_equal(exponential(far)[69, 89], exponential(far[69, 89:])[0])

"""The exponential of link functions: an error that follows from its steps, and the truth."""

import math

import numpy as np
from flint import arb, ctx

from pabi.numbers import exponential as own
from pabi.numbers.exponential import OFF, exponential
from pabi.numbers.rounding import HALF_ULP

STEP = math.log(2.0) / 2048
FARTHEST = math.ceil(709.0 / STEP) + 1


def test_the_error_follows_from_the_steps():
    """Of the table, of t, of the terms left out, and of Horner's scheme, each operation rounded once."""
    j = np.arange(2048)
    table = (own._powers() + (j.astype(np.uint64) << 41)).view(np.float64)
    with ctx.workprec(200):
        step = arb(2).log() / 2048
        assert abs(arb(own._HIGH) + arb(own._LOW) - step) < arb(2) ** -91
        assert all(
            abs(arb(power) / (step * i).exp() - 1) < HALF_ULP
            for i, power in zip(j.tolist(), table.tolist(), strict=True)
            if i > 0
        )
    assert table[0] == 1.0
    # A whole number of at most 21 bits times 32 bits is exact, and so is the sum that makes it whole.
    assert FARTHEST < 2**21
    assert int(own._HIGH * 2.0**43) == own._HIGH * 2.0**43 < 2.0**32
    assert math.ulp(own._WHOLE - FARTHEST) == math.ulp(own._WHOLE + FARTHEST) == 1.0
    # It is found with doubles: the quotient is off by two roundings.
    most = STEP * (0.5 + 3.0 * HALF_ULP * FARTHEST)
    low = FARTHEST * own._LOW
    of_t = FARTHEST * 2.0**-91 + HALF_ULP * (low + 2.0 * (most + low))
    size, error = own._CUBIC, HALF_ULP * own._CUBIC
    for c in (0.5, 1.0, 1.0):
        sum_of_both = size * most + c
        error = (error + HALF_ULP * size) * most + HALF_ULP * sum_of_both
        size = sum_of_both
    left_out = most**4 / math.factorial(4) * math.exp(most)
    relative = (error + left_out) / math.exp(-most) + of_t + 2.0 * HALF_ULP
    assert relative * (1.0 + 1e-9) < 3.5 * HALF_ULP < OFF
    assert relative > 0.4 * OFF
    # All powers of two, and so all products, are normal numbers.
    assert FARTHEST / 2048 < 1024
    assert own._MOST / STEP < FARTHEST
    assert own._LEAST / STEP - 1 > -1022 * 2048


def beside(x):
    """These numbers and those next to them."""
    return np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)])


def test_it_is_near_the_truth_everywhere():
    """Where t is next to 0 or changes its sign, at the ends of the table, next to 0, at all ends."""
    rng = np.random.default_rng(0)
    whole = np.concatenate([rng.integers(-2_091_900, 2_094_800, 300), np.arange(-3, 4) * 2048])
    x = np.concatenate(
        [
            rng.uniform(-708.0, 709.0, 1000),
            rng.normal(size=1000),
            *(beside((whole + part) * STEP) for part in (-1.0, 0.0, 0.5)),
            beside(np.array([709.0, -708.0, 1.0, -1.0, 0.0, 1e-300, -1e-300, 2.0**-53])),
        ]
    )
    with ctx.workprec(120):
        off = [
            abs(arb(y) / arb(z).exp() - 1)
            for y, z in zip(exponential(x).tolist(), x.clip(-708.0, 709.0).tolist(), strict=True)
        ]
        assert all(each < OFF for each in off)


def test_what_is_far_out_is_cut_off():
    ends = exponential(
        np.array([-800.0, -708.0, 709.0, 710.0, math.inf, -math.inf, math.nan, 0.0, -0.0])
    )
    least, most = ends[1:3]
    assert ends[[0, 5]].tolist() == [least, least]
    assert ends[[3, 4]].tolist() == [most, most]
    assert np.isnan(ends[6])
    assert ends[7:].tolist() == [1.0, 1.0]


def test_it_is_the_same_wherever_a_number_stands():
    """In whatever memory, alone or beside others, in place or not."""
    x = np.arange(6.0).reshape(2, 3)
    assert exponential(x, out=x) is x
    assert np.array_equal(x[1], exponential(np.array([3.0, 4.0, 5.0])))
    far = 100.0 * np.random.default_rng(1).normal(size=(70, 190))
    whole = exponential(far)
    for other in (np.asfortranarray(far), np.repeat(far, 2, axis=1)[:, ::2]):
        assert np.array_equal(exponential(other), whole)
    assert whole[69].tolist() == [exponential(far[69, i:][:1])[0] for i in range(190)]
    assert all(np.array_equal(exponential(far[3, i:]), whole[3, i:]) for i in range(9))

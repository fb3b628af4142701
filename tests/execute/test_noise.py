"""Rounded Gaussian noise: its table in balls, numbers at the worst words, its law, and what is released."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

import pabi
from pabi.execute import noise
from pabi.execute.noise import StepNoise, grid_for, noisy, rounded_normal
from pabi.execute.sums import least_move
from support.every_case import every, refused
from support.execution import RARE

HALF = 2.0**-53
RATIOS = [0.3, 1.0, 2.0**20, 1.7 * 2.0**30, 2.0**46]


class Scripted:
    """A generator of these words, which counts those that were taken."""

    def __init__(self, *words):
        self.words, self.taken = list(words), 0

    def integers(self, low, high, size=None, dtype=None):
        first, self.taken = self.taken, self.taken + (1 if size is None else size)
        taken = np.array(self.words[first : self.taken], dtype)
        return taken[0] if size is None else taken


def share_beyond(x):
    """A ball of P(|Z| > x)."""
    return (x / arb(2).sqrt()).erfc()


def refuted(k, revealed, bits, ratio):
    """Whether |K| = k is not the rounding of every u whose first bits are these."""
    with ctx.workprec(bits + 50):
        low, high = (arb(m) / arb(2) ** bits for m in (revealed, revealed + 1))
        above, below = (share_beyond((arb(k) + side) / arb(ratio)) for side in (0.5, -0.5))
        return not (low >= above and (k == 0 or high <= below))


def test_what_doubles_compute_is_as_near_as_is_said():
    """Of every piece in balls: Taylor's remainder, the table's numbers and all roundings, below 2⁻⁴⁸."""
    *pieces, allowed = (row[1:].tolist() for row in noise._table())
    middle, *rows = pieces
    polynomials = [[1]]  # P₀, …, P₅ by their recursion, from the constant on
    for n in range(1, 6):
        last = polynomials[-1]
        slope = [*(i * c for i, c in enumerate(last) if i), 0, 0]
        polynomials.append([a + n * c for a, c in zip(slope, [0, *last], strict=False)])
    worst = 0.0
    with ctx.workprec(100):
        root = (arb.pi() / 2).sqrt()

        def derivative(n, x, D):
            return (-D) ** n * sum(c * x**i for i, c in enumerate(polynomials[n - 1]))

        for most, u, *row in zip(allowed, middle, *rows, strict=True):
            *coefficients, value = row
            half = math.ldexp(1.0, math.frexp(u)[1] - 9)
            x = arb(value)
            x += (share_beyond(x) - u) * root * (x * x / 2).exp()  # next to nothing is left of 2⁻⁵²
            D = root * (x * x / 2).exp()
            # Nearer to 0 there is more of everything.
            left = x + 2 * D * half
            assert share_beyond(left) < u - half
            steep = root * (left * left / 2).exp()
            off = steep * ((u + half) * HALF + arb(2) ** -63)
            off += abs(derivative(6, left, steep)) / 720 * half**6
            off += abs(x - value) + 2 * HALF * left
            for n, c in zip(range(5, 0, -1), coefficients, strict=True):
                off += (
                    abs(derivative(n, x, D) / math.factorial(n) - c) + 12 * HALF * abs(c)
                ) * half**n
            assert off < 0.95 * most
            assert most < noise._OFF
            worst = max(worst, float(off / most))
    assert worst > 0.9


@every("ratio", RATIOS)
def test_numbers_of_random_words_are_those_of_balls(ratio):
    rng = np.random.default_rng(0)
    words = rng.integers(0, 1 << 64, 2000, np.uint64)
    generator = Scripted(*words, *rng.integers(0, 1 << 64, 2000, np.uint64))
    drawn = rounded_normal(generator, 2000, ratio)
    mask = (1 << 63) - 1
    sure = [
        (k, int(word))
        for k, word in zip(drawn, words, strict=True)
        if not refuted(abs(int(k)), int(word) & mask, 63, ratio)
    ]
    # Of the others more words were taken.
    assert len(words) - len(sure) <= generator.taken - len(words) <= len(words) // 10
    assert all(math.copysign(1.0, k) == (1.0 if word <= mask else -1.0) for k, word in sure)


def words_near(ratio):
    """The first words of the uniform numbers around an end of a range, of 0, ½ and 1, with one to follow."""
    rng = np.random.default_rng(1)
    with ctx.workprec(256):
        for x in (0.0, 0.5, 0.6745, 1.0, 2.5, 4.0, 4.1, 7.0, 9.5):
            k = round(x * ratio)
            end = share_beyond((k + arb(0.5)) / arb(ratio))
            bits = int((end * arb(2) ** 127).mid().floor().unique_fmpz())
            yield from (((bits >> 64) + i, (bits + i) % (1 << 64)) for i in (-2, -1, 0, 1, 2))
            yield from (
                ((bits >> 64) + sign * (1 << i), int(rng.integers(1 << 63)))
                for i in range(4, 56, 4)
                for sign in (1, -1)
            )
    ends = (0, 1, 2, 1 << 48, (1 << 49) - 1, 1 << 49, 1 << 62, (1 << 63) - 512, (1 << 63) - 1)
    yield from ((word, more) for word in ends for more in (0, 1, (1 << 64) - 1))


@every("ratio", RATIOS)
def test_numbers_of_the_worst_words_are_those_of_balls(ratio):
    """Beside ends of ranges, where doubles decide and where they do not, in the tails and at all zeros."""
    later = [7, *range(1000, 1020)]
    seen = set()
    for word, more in words_near(ratio):
        if not 0 <= word < 1 << 63:
            continue
        generator = Scripted(word, more, *later)
        (k,) = rounded_normal(generator, 1, ratio)
        revealed = 0
        for taken in generator.words[: generator.taken]:
            revealed = revealed << 64 | taken
        assert not refuted(int(k), revealed, 64 * generator.taken - 1, ratio)
        (mirrored,) = rounded_normal(Scripted(word | 1 << 63, more, *later), 1, ratio)
        assert mirrored == -k
        seen.add(generator.taken)
    assert {1, 2} <= seen


@every("ratio", [2.0**20, 2.0**40])
def test_fine_grids_are_gaussian_and_their_last_bits_even(ratio):
    drawn = rounded_normal(np.random.default_rng(3), (300, 400), ratio)
    assert drawn.shape == (300, 400)
    assert kstest(drawn.ravel() / ratio, "norm").pvalue > RARE
    assert chisquare(np.bincount(drawn.ravel().astype(np.int64) & 63)).pvalue > RARE


positive = st.floats(-200.0, 200.0).map(lambda x: 10.0**x)


@given(positive, positive)
def test_grids_are_as_fine_as_wanted_or_as_the_noise_allows(unit, noise_std):
    grid = grid_for(unit, noise_std)
    assert math.frexp(grid)[0] == 0.5
    ratio = Fraction(noise_std) / Fraction(grid)
    assert ratio < 2**46
    if noise_std < 2.0**46 * unit / 2.0:
        assert grid <= unit
        assert ratio >= 2**20 or grid * 2**100 <= unit


def test_what_is_released_is_nearest_to_the_sum_on_its_grid_and_its_noise():
    """And zeros have no sign, which would tell that of the sum."""
    sums = np.array([0.0, -0.0, 0.3, -0.3, 5e3, 2.0**40 + 1 / 3, -(2.0**60), 1e-300, -1e-300])
    for grid, noise_std in [(2.0**-20, 3.0), (4.0, 0.5), (2.0**-20, 2.0**25)]:
        found = noisy(sums, noise_std, grid, np.random.default_rng(4))
        drawn = rounded_normal(np.random.default_rng(4), sums.shape, noise_std / grid)
        for s, k, value in zip(sums.tolist(), drawn.tolist(), found.tolist(), strict=True):
            on_grid = Fraction(grid) * round(Fraction(s) / Fraction(grid))
            assert value == float(on_grid + Fraction(grid) * int(k))
            assert math.copysign(1.0, value) == 1.0 or value < 0.0


@pytest.mark.parametrize("draws", [10**6, pytest.param(3 * 10**8, marks=pytest.mark.nightly)])
@every("ratio", [0.7, 3.0])
def test_coarse_grids_have_the_exact_probabilities(draws, ratio):
    """Of every whole number, by balls; those that are rarer than one in a hundred draws together."""
    generator, most = np.random.default_rng(5), int(8.0 * ratio) + 1
    counts = np.zeros(2 * most + 1)
    for first in range(0, draws, 1 << 20):
        drawn = rounded_normal(generator, min(1 << 20, draws - first), ratio)
        counts += np.bincount(
            drawn.clip(-most, most).astype(np.int64) + most, minlength=counts.size
        )
    with ctx.workprec(100):
        beyond = [float(share_beyond((arb(k) - 0.5) / arb(ratio))) / 2 for k in range(1, most + 1)]
    above = -np.diff([*beyond, 0.0])
    law = np.array([*above[::-1], 1.0 - 2.0 * beyond[0], *above])
    often = law * draws > 100.0
    seen, wanted = (np.append(x[often], x[~often].sum()) for x in (counts, law * draws))
    assert chisquare(seen, wanted * draws / wanted.sum()).pvalue > RARE


@every("dimension", [1, 50, 10**6])
@every("moved", [1e-6, 0.5, 1e3])
def test_a_step_hides_what_rounding_to_its_grid_adds(dimension, moved):
    """Exactly: distances from `moved` on, and the noise, grow by as much at least."""
    step = StepNoise(1.0, moved, dimension)
    apart = Fraction(moved) + Fraction(step.grid) * Fraction(math.sqrt(dimension)) * (
        1 - Fraction(HALF)
    )
    assert Fraction(step.noise_std) * Fraction(moved) >= apart
    assert step.raised < 1.0 + 1e-6 or moved < 1e-3


@every("noise_std, dimension", [(1e13, 1), (1e15, 1), (1e13, 10**6), (1e17, 3), (1e308, 1)])
def test_noise_of_which_no_double_is_a_multiple_is_refused(noise_std, dimension):
    """Steps that are not have a ratio for which numbers are exact."""
    if noise_std * math.sqrt(dimension) < 2.0**46:
        step = StepNoise(noise_std, 1.0, dimension)
        assert step.noise_std / step.grid <= 2.0**47
    else:
        assert "less noise than" in refused("noise_std", StepNoise, noise_std, 1.0, dimension)


@every("adjacency", ["replace_one", "zero_out"])
@every("batches", [pabi.FullBatch(), pabi.ShuffleOnce(5), pabi.Poisson(5), pabi.FixedSize(5)])
def test_no_proof_speaks_of_less_than_the_least_move(adjacency, batches):
    """What one record contributes is the least of all distances, be it taken out or replaced."""
    run = pabi.NoisySGD(
        *(pabi.Loss.logistic(1.0), 50, batches),
        **{
            "epochs": 1,
            "step_size": 1.0,
            "noise_std": 1.0,
            "clip_norm": 0.25,
            "adjacency": adjacency,
        },
    )
    assert least_move(run) * run.batch_size <= 0.25

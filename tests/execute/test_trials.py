"""Draws of the number of trials: exact inversion, tested against the law's own masses."""

import numpy as np
import pytest
from scipy import stats
from tests.support.falsification.selections import masses

from pabi.execute.randomness import secret_generator
from pabi.execute.trials import TrialLaw
from pabi.numbers.errors import InvalidInput
from support.execution import every


@every(("gamma", "shape"), [(0.1, 1.0), (0.1, 0.0), (0.3, -0.5), (0.2, 2.5), (0.9, 0.0)])
def test_draws_follow_the_law(gamma: float, shape: float):
    """χ² over cells of at least 20 expected draws; it fails by chance once in a million runs."""
    law, generator, draws = TrialLaw(gamma, shape), secret_generator(), 4000
    drawn = np.array([law.draw(generator) for _ in range(draws)])
    expected = draws * masses(gamma, shape, 400)
    cells = int(np.argmax(expected < 20.0)) or 1
    counts = np.bincount(np.minimum(drawn, cells + 1), minlength=cells + 2)[1:]
    rest = draws - expected[:cells].sum()
    statistic = ((counts[:-1] - expected[:cells]) ** 2 / expected[:cells]).sum()
    statistic += (counts[-1] - rest) ** 2 / rest
    assert statistic < stats.chi2(cells).isf(1e-6)


class Scripted:
    """A generator that gives these bytes."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def bytes(self, count: int) -> bytes:
        return self.words.pop(0).to_bytes(count, "little")


def test_a_draw_in_doubt_reveals_more_bits():
    """P(K = 1) = 1/2 exactly: a uniform number that begins with 2⁶³ − 1 units of 2⁻⁶⁴ ends at the edge."""
    law = TrialLaw(0.5, 1.0)
    below = Scripted(2**63 - 1, 0)
    assert law.draw(below) == 1
    above = Scripted(2**63, 7)
    assert law.draw(above) == 2
    assert law.draw(Scripted(0)) == 1
    assert law.draw(Scripted(2**64 - 1, 7)) == 65


@every("shape", [-0.5, 0.0, 1.0])
def test_quantiles(shape: float):
    cumulative = np.cumsum(masses(0.05, shape, 2000))
    law = TrialLaw(0.05, shape)
    for share in (0.5, 0.99):
        assert law.quantile(share) == int(np.argmax(cumulative >= share)) + 1


def test_bad_input():
    for arguments, field in (((0.0, 1.0), "gamma"), ((1.0, 1.0), "gamma"), ((0.5, -1.0), "shape")):
        with pytest.raises(InvalidInput) as refusal:
            TrialLaw(*arguments)
        assert refusal.value.field == field

"""Statistics of columns: a Gaussian mechanism, and for levels that are not declared a probability of failure.

One record moves all numbers together by s, which is G(s/σ), whatever thresholds were chosen by earlier
answers. A level that one record alone brings is shown with probability Q(z) in a column, and in some of d
columns with probability δ₀ = 1 − (1 − Q(z))^d; apart from that it is the same Gaussian (docs, "Theory", 18).
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb, ctx

from pabi.analyses.writing import DescribedProof
from pabi.convert.balls import normal_tail, upper
from pabi.describe.statistics import NoisyColumnStatistics, column_statistics_sentences
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.rounding import fraction_up
from pabi.tradeoff import Gaussian, Product, TradeOff

NAME = "column statistics"
SOURCE = "Dong, Roth, Su 2022, Thm 2.7 and Cor. 3.3; docs, Theory, 18"
_BITS = 400


def apply(
    statistics: NoisyColumnStatistics, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of one release of noisy statistics of columns."""
    noise = Fraction(statistics.column_noise_std)
    gaussian = Gaussian(fraction_up(Fraction(statistics.sensitivity) / noise))
    curve: TradeOff = gaussian
    if statistics.threshold is not None:
        curve = Product([(gaussian, 1)], failure_of(statistics.threshold, statistics.columns))
    return Guarantee(
        curve,
        statistics.adjacency,
        NAME,
        SOURCE,
        column_statistics_sentences(statistics),
        proof=DescribedProof(NAME, statistics, curve),
    )


def failure_of(threshold: float, columns: int) -> float:
    """δ₀ = 1 − (1 − Q(z))^d, rounded up: some level of d that one record alone has is shown."""
    with ctx.workprec(_BITS):
        tail = normal_tail(arb(threshold))
        return min(1.0, upper(-(columns * (-tail).log1p()).expm1()))

"""The noise that DP-SGD with Poisson batches needs, every iterate released, by an accountant of its own.

    python poisson_accountant.py --check     is it what dp-accounting's accountant says? (two minutes)

One step adds N(0, σ²) to a sum in which a record of norm 1 is with probability q. The adjacency is
add/remove: neighbours differ by one record, so that two pairs of laws count, (1 − q)N(0, σ²) + qN(1, σ²)
against N(0, σ²), and the same pair the other way round. The law of the privacy loss of each pair is put on
a grid, composed by a Fourier transform, and read.

No approximation makes ε smaller. The mass of a cell of the grid goes to the two ends of the cell, in such
shares that both laws keep their masses: the likelihood ratio is spread and keeps its mean, so that no
hockey-stick divergence falls (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, "Connect the dots", where
it is the least such law). The error is of second order in the width of a cell. Mass beyond the grid
counts as a loss of ∞ above it, and as the grid's least loss below it. What a Chernoff bound leaves outside
the window of the transform is added to δ. Only the rounding of doubles, about 1e-13 in δ, is left out.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

CELLS = 40  # of the grid within a standard deviation of one step's loss
MOST_CELLS = 2_000_000  # of one step's grid
TAIL = 1e-5  # the share of δ that a cut-off tail may cost
TILTS = np.geomspace(1e-3, 1e5, 60)  # of the Chernoff bounds
CHECKS = {  # every combination is checked
    "rate": (0.002, 0.02, 0.3, 1.0),
    "noise": (0.8, 2.0, 12.0),
    "steps": (1, 50, 2_000),
    "delta": (1e-8, 1e-5, 1e-3),
}
RTOL, ATOL = 1e-3, 1e-6  # in ε


@dataclass(frozen=True)
class Losses:
    """The law of a privacy loss: the mass `mass[i]` at (first + i)·step, and `infinite` at ∞."""

    first: int
    step: float
    mass: np.ndarray
    infinite: float

    @property
    def values(self) -> np.ndarray:
        return (self.first + np.arange(len(self.mass))) * self.step


def normal_mass(edges: np.ndarray) -> np.ndarray:
    """The mass of a standard normal variate before, between and after monotone edges, in their order."""
    if edges[0] > edges[-1]:
        return normal_mass(-edges)
    low, high = np.append(-math.inf, edges), np.append(edges, math.inf)
    right = low > 0.0  # of their upper tails, so that small differences keep their digits
    return ndtr(np.where(right, -low, high)) - ndtr(np.where(right, -high, low))


def one_step(rate: float, noise: float, tail: float, removed: bool) -> Losses:
    """The loss of one step, where the record is `removed` from the data or added to them.

    `tail`: how much mass may be cut off at either end.
    """
    # At x the loss is log(1 − q + q·e^((2x − 1)/(2σ²))) if the record is removed, minus that if it is added.
    reach = -noise * float(ndtri(tail))
    ends = loss_at(np.array([-reach, reach + removed]), rate, noise)
    bottom, top = ends if removed else -ends[::-1]
    # The loss's standard deviation is about the root of the χ² divergence, as long as that is small.
    spread = min(rate * math.sqrt(math.expm1(min(noise**-2, 50.0))), float(top - bottom) / 4.0)
    step = max(spread / CELLS, float(top - bottom) / MOST_CELLS)
    first, last = math.floor(bottom / step), math.ceil(top / step)
    edges = np.arange(first, last + 1) * step
    x = crossing(edges if removed else -edges, rate, noise)
    plain, shifted = (normal_mass((x - centre) / noise) for centre in (0.0, 1.0))
    mixture = (1.0 - rate) * plain + rate * shifted
    upper, lower = (mixture, plain) if removed else (plain, mixture)
    mass = to_the_edges(upper[1:-1], lower[1:-1], edges)
    mass[0] += upper[0]
    return Losses(first, step, mass, float(upper[-1]))


def loss_at(x: np.ndarray, rate: float, noise: float) -> np.ndarray:
    rest = math.log1p(-rate) if rate < 1.0 else -math.inf
    return np.logaddexp(rest, math.log(rate) + (2.0 * x - 1.0) / (2.0 * noise**2))


def crossing(losses: np.ndarray, rate: float, noise: float) -> np.ndarray:
    """Where log(1 − q + q·e^((2x − 1)/(2σ²))) has these values; −∞ where it never has."""
    excess = np.expm1(losses) / rate + 1.0
    with np.errstate(divide="ignore"):
        return 0.5 + noise**2 * np.log(np.maximum(excess, 0.0))


def to_the_edges(upper: np.ndarray, lower: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The masses at the edges; each cell's, `upper` and `lower` under the two laws, goes to its ends."""
    # With a at the low end and b at the high one: a + b = upper and a·e^−low + b·e^−high = lower.
    at_low = (lower * np.exp(edges[1:]) - upper) / math.expm1(edges[1] - edges[0])
    at_low = np.clip(at_low, 0.0, upper)
    return np.append(at_low, 0.0) + np.append(0.0, upper - at_low)


def composed(one: Losses, steps: int, tail: float) -> Losses:
    """The loss of `steps` steps; `tail`: how much mass may be cut off at either end."""
    values, tilts = one.values, TILTS[TILTS * np.abs(one.values).max() < 700.0]
    with np.errstate(divide="ignore"):
        log_mass = np.log(one.mass)

    def reach(sign: float) -> float:
        """What `sign` times the sum of finite losses exceeds with probability at most `tail`."""
        moments = np.array([log_sum_exp(log_mass + sign * t * values) for t in tilts])
        return float(np.min((steps * moments - math.log(tail)) / tilts))

    top = min(reach(1.0), steps * float(values[-1]))
    bottom = max(-reach(-1.0), steps * float(values[0]))
    first = math.floor(bottom / one.step)
    size = math.ceil(top / one.step) - first + 1
    length = 1 << max(size, len(one.mass)).bit_length()
    transform = np.fft.rfft(one.mass, length) ** steps
    sums = np.maximum(np.fft.irfft(transform, length), 0.0)
    # Entry i stands for every sum that is steps·first + i modulo the length.
    mass = np.roll(sums, steps * one.first - first)[:size]
    # What is cut off at either end, or wrapped around, counts as infinite too.
    return Losses(
        first, one.step, mass, -math.expm1(steps * math.log1p(-one.infinite)) + 2.0 * tail
    )


def log_sum_exp(exponents: np.ndarray) -> float:
    peak = float(exponents.max())
    return peak + math.log(float(np.exp(exponents - peak).sum()))


@dataclass(frozen=True)
class Account:
    """What a run costs, by the composed losses of both pairs."""

    removed: Losses
    added: Losses

    def delta(self, epsilon: float) -> float:
        """The δ that goes with ε."""
        return max(hockey_stick(self.removed, epsilon), hockey_stick(self.added, epsilon))

    def epsilon(self, delta: float) -> float:
        """The ε that goes with δ; 0 where that is already enough, ∞ where no ε is."""
        highest = float(max(self.removed.values[-1], self.added.values[-1]))
        if self.delta(0.0) <= delta:
            return 0.0
        if self.delta(highest) > delta:
            return math.inf
        return float(brentq(lambda e: self.delta(e) - delta, 0.0, highest, xtol=1e-9))


def hockey_stick(law: Losses, epsilon: float) -> float:
    above = law.values > epsilon
    return law.infinite - float(law.mass[above] @ np.expm1(epsilon - law.values[above]))


def account(rate: float, noise: float, steps: int, delta: float) -> Account:
    """The cost of `steps` Poisson batches at rate q and noise multiplier σ, for readings near `delta`."""
    tail = TAIL * delta
    return Account(
        *(composed(one_step(rate, noise, tail / steps, r), steps, tail) for r in (True, False))
    )


@cache
def noise_multiplier(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """The least σ, to a relative 1e-6 and rounded up, at which all steps are (ε, δ)-DP."""

    def excess(log_noise: float) -> float:
        return math.log(account(rate, math.exp(log_noise), steps, delta).delta(epsilon) / delta)

    low, high = math.log(0.3), math.log(0.6)
    while excess(low) <= 0.0:
        low, high = low - math.log(2.0), low
    while excess(high) > 0.0:
        low, high = high, high + math.log(2.0)
    root = float(brentq(excess, low, high, xtol=1e-7))
    while excess(root) > 0.0:
        root += 1e-7
    return math.exp(root)


def peer(rate: float, noise: float, steps: int, delta: float) -> float:
    """ε by dp-accounting, on a grid as fine as the loss is narrow."""
    import dp_accounting as dp

    fine = min(1e-4, rate / noise / 20.0)
    accountant = dp.pld.PLDAccountant(
        dp.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=fine
    )
    step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
    return float(accountant.compose(step, steps).get_epsilon(delta))


def check() -> bool:
    """Prints ε of either accountant at every combination; whether all agree to RTOL."""
    agree = True
    for rate, noise, steps, delta in product(*CHECKS.values()):
        ours = account(rate, noise, steps, delta).epsilon(delta)
        theirs = peer(rate, noise, steps, delta)
        close = math.isclose(ours, theirs, rel_tol=RTOL, abs_tol=ATOL)
        agree &= close
        print(rate, noise, steps, delta, ours, theirs, "" if close else "DIFFERENT")
    return agree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", required=True)
    parser.parse_args()
    sys.exit(0 if check() else "the accountants differ")


if __name__ == "__main__":
    main()

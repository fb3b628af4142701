"""Bok, Su, Altschuler 2024, *Shifted Interpolation for Differential Privacy*.

X ← Π(X − η(g + Z)), Z ~ N(0, σ²I), σ = `noise_std` on the gradient; g the mean of a batch of b of the n
records; L the gradient sensitivity; c = `slope` of a gradient step, max(|1 − ηm|, |1 − ηM|). Theorem 4.7
does not exist (4.7 is a definition).
"""

from __future__ import annotations

import math

from pabi.literature.published import ROUNDED, geometric, published, require
from pabi.numbers.showing import shown, shown_down
from pabi.tradeoff import Gaussian, Subsampled, TradeOff

PAPER = "Bok, Su, Altschuler 2024"


@published("gdp", f"{PAPER}, Theorem 4.1")
def theorem_4_1(*, L: float, n: int, noise_std: float, steps: int) -> float:
    """The parameter μ = L√t/(nσ) of full batches, by composition.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    n : int, at least 1
        Records of the data set.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    steps : int, at least 1
        Number of steps.

    Returns
    -------
    Published
        `value` is μ.

    Raises
    ------
    ZeroDivisionError
        For no records, or a noise of 0.

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem 4.1.
    """
    return L / (n * noise_std) * math.sqrt(steps)


@published("gdp", f"{PAPER}, Theorem 4.2")
def theorem_4_2(*, L: float, n: int, noise_std: float, slope: float, steps: int) -> float:
    """The parameter μ = √((1 − c^t)/(1 + c^t)·(1 + c)/(1 − c))·L/(nσ) of full batches and strongly
    convex losses.

    Exact for η ≤ 2/(M + m).

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    n : int, at least 1
        Records of the data set.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    slope : float, in [0, 1)
        c, the Lipschitz constant of a gradient step.
    steps : int, at least 1
        Number of steps.

    Returns
    -------
    Published
        `value` is μ.

    Raises
    ------
    NotApplicable
        For c ≥ 1.

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem 4.2.
    """
    require(slope < 1.0, "slope < 1")
    return (
        math.sqrt(_saturation(slope, steps) * (1.0 + slope) / (1.0 - slope)) * L / (n * noise_std)
    )


def _saturation(c: float, power: int) -> float:
    """(1 − c^k)/(1 + c^k)."""
    if power == 0 or c == 0.0:
        return float(power > 0)
    return -math.expm1(power * math.log(c)) / (1.0 + c**power)


@published("gdp", f"{PAPER}, Theorem 4.3")
def theorem_4_3(
    *, L: float, n: int, noise_std: float, step_size: float, diameter: float, steps: int
) -> float:
    """The parameter μ = √(3LD/(ηn) + (L/n)²·⌈Dn/(ηL)⌉)/σ of full batches and convex losses on a
    bounded set.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    n : int, at least 1
        Records of the data set.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    step_size : float, above 0
        η, the size of a step.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    steps : int, at least 1
        Number of steps.

    Returns
    -------
    Published
        `value` is μ.

    Raises
    ------
    NotApplicable
        Unless t ≥ Dn/(ηL).

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem 4.3.
    """
    ratio = diameter * n / (step_size * L)
    require(steps >= ratio, f"t ≥ Dn/(ηL) = {shown(ratio)}")
    inner = 3.0 * L * diameter / (step_size * n) + (L / n) ** 2 * _ceiling(ratio)
    return math.sqrt(inner) / noise_std


def _ceiling(x: float) -> int:
    """⌈x⌉, where a ratio of decimals is within rounding of an integer that integer."""
    near = round(x)
    return near if abs(x - near) <= ROUNDED * abs(x) else math.ceil(x)


@published("gdp", f"{PAPER}, Theorem 4.4")
def theorem_4_4(*, L: float, b: int, noise_std: float, epochs: int) -> float:
    """The parameter μ = L√E/(bσ) of cyclic batches, by composition.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    b : int, at least 1
        Records in a batch.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    epochs : int, at least 1
        E, the number of passes over the data.

    Returns
    -------
    Published
        `value` is μ.

    Raises
    ------
    ZeroDivisionError
        For empty batches, or a noise of 0.

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem 4.4.
    """
    return L / (b * noise_std) * math.sqrt(epochs)


@published("gdp", f"{PAPER}, Theorem 4.5")
def theorem_4_5(
    *, L: float, b: int, noise_std: float, slope: float, batches_per_epoch: int, epochs: int
) -> float:
    """The parameter μ = L/(bσ)·√(1 + c^(2l−2)·(1 − c²)/(1 − c^l)²·(1 − c^(l(E−1)))/(1 +
    c^(l(E−1)))).

    It holds for cyclic batches and strongly convex losses.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    b : int, at least 1
        Records in a batch.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    slope : float, in [0, 1)
        c, the Lipschitz constant of a gradient step.
    batches_per_epoch : int, at least 1
        l, the number of batches of one pass.
    epochs : int, at least 1
        E, the number of passes over the data.

    Returns
    -------
    Published
        `value` is μ.

    Raises
    ------
    NotApplicable
        For c ≥ 1.

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem 4.5.
    """
    require(slope < 1.0, "slope < 1")
    if slope == 0.0:
        return (
            L / (b * noise_std) * (math.sqrt(2.0) if batches_per_epoch == 1 and epochs > 1 else 1)
        )
    period = batches_per_epoch
    memory = slope ** (2 * period - 2) * _forgotten(slope, period)
    return L / (b * noise_std) * math.sqrt(1.0 + memory * _saturation(slope, period * (epochs - 1)))


def _forgotten(c: float, period: int) -> float:
    """(1 − c²)/(1 − c^l)²."""
    log = math.log(c)
    return -math.expm1(2.0 * log) / math.expm1(period * log) ** 2


@published("gdp", f"{PAPER}, Theorem 4.6")
def theorem_4_6(
    *,
    L: float,
    b: int,
    noise_std: float,
    step_size: float,
    diameter: float,
    batches_per_epoch: int,
    epochs: int,
) -> float:
    """The parameter μ = √((L/b)² + 3LD/(ηbl) + (L/b)²·⌈Db/(ηL)⌉/l)/σ of cyclic batches and convex
    losses.

    It holds on a set of diameter D. Sound; the optimal shifts are cheaper (1.6251 for 1.7321 at l =
    10, c = 1, s = σ = 1, D = 5).

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    b : int, at least 1
        Records in a batch.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    step_size : float, above 0
        η, the size of a step.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    batches_per_epoch : int, at least 1
        l, the number of batches of one pass.
    epochs : int, at least 1
        E, the number of passes over the data.

    Returns
    -------
    Published
        `value` is μ.

    Raises
    ------
    NotApplicable
        Unless E ≥ Db/(ηL).

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem 4.6.
    """
    ratio = diameter * b / (step_size * L)
    require(epochs >= ratio, f"E ≥ Db/(ηL) = {shown(ratio)}")
    l, once = batches_per_epoch, (L / b) ** 2  # noqa: E741
    inner = once + 3.0 * L * diameter / (step_size * b * l) + once / l * _ceiling(ratio)
    return math.sqrt(inner) / noise_std


@published(
    "epochs",
    f"{PAPER}, Tables 10 to 12",
    "refuted",
    "the table multiplies a term by (L/b)² that is to be divided by it, and drops the first; the epochs "
    "from which Theorem 4.6 is no more than composition are ⌈(σμb/L)²⌉, e.g. 41 for 31 (L/b = 0.25, "
    "η = 0.04, l = 10)",
)
def tables_10_to_12(
    *,
    L: float,
    b: int,
    step_size: float,
    diameter: float,
    batches_per_epoch: int,
) -> float:
    """The printed number E* of epochs from which Theorem 4.6 is said to beat composition.

    The value is ⌈3Db/(ηLl) + (L/b)²·⌈Db/(ηL)⌉/l⌉, which reproduces all 27 entries. Refuted: the
    number that their own Theorems 4.4 and 4.6 give is ⌈1 + 3Db/(ηLl) + ⌈Db/(ηL)⌉/l⌉, so that at the
    printed E* composition is still the smaller of the two. The parameters μ* printed beside them
    are right.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    b : int, at least 1
        Records in a batch.
    step_size : float, above 0
        η, the size of a step.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    batches_per_epoch : int, at least 1
        l, the number of batches of one pass.

    Returns
    -------
    Published
        `value` is a number of epochs.

    Raises
    ------
    ZeroDivisionError
        For a step size or a sensitivity of 0.

    References
    ----------
    Bok, Su, Altschuler 2024, Tables 10 to 12; docs, "Errata".
    """
    ratio, l = diameter * b / (step_size * L), batches_per_epoch  # noqa: E741
    return float(_ceiling(3.0 * ratio / l + (L / b) ** 2 * _ceiling(ratio) / l))


@published("tradeoff", f"{PAPER}, Theorem 4.8")
def theorem_4_8(*, L: float, b: int, n: int, noise_std: float, steps: int) -> TradeOff:
    """The trade-off function C_{b/n}(G(L/(bσ)))^⊗t of batches of fixed size, by composition.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    b : int, at least 1
        Records in a batch.
    n : int, at least 1
        Records of the data set.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    steps : int, at least 1
        Number of steps.

    Returns
    -------
    Published
        `value` is a trade-off function, a `pabi.tradeoff` object.

    Raises
    ------
    InvalidInput
        For b > n, a negative sensitivity or no steps.

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem 4.8.
    """
    return Subsampled(Gaussian(L / (b * noise_std)), b / n).self_compose(steps)


@published("tradeoff", f"{PAPER}, Theorem 4.9")
def theorem_4_9(
    *, L: float, b: int, n: int, noise_std: float, slope: float, steps: int, start: int
) -> TradeOff:
    """The trade-off function of the last iterate for batches of fixed size and strongly convex
    losses.

    It is G(2√2·L/(bσ)·(c^(t−τ+1) − c^t)/(1 − c)) ⊗ C_{b/n}(G(2√2·L/(bσ))) ⊗
    C_{b/n}(G(2L/(bσ)))^⊗(t−τ). At τ = 0, which the theorem admits, the first argument is negative,
    a shift of negative length: NotApplicable.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    b : int, at least 1
        Records in a batch.
    n : int, at least 1
        Records of the data set.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    slope : float, in [0, 1)
        c, the Lipschitz constant of a gradient step.
    steps : int, at least 1
        Number of steps.
    start : int, in 1..steps − 1
        τ, the step from which the record is paid for.

    Returns
    -------
    Published
        `value` is a trade-off function, a `pabi.tradeoff` object.

    Raises
    ------
    NotApplicable
        For c ≥ 1, or a start outside of 1..steps − 1.

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem 4.9.
    """
    require(slope < 1.0, "slope < 1")
    require(1 <= start < steps, "start in 1..steps − 1; at 0 the shift is negative")
    unit, p = L / (b * noise_std), b / n
    root = 2.0 * math.sqrt(2.0) * unit
    moved = slope ** (steps - start + 1) * geometric(slope, start - 1)
    last = Gaussian(root * moved).compose(Subsampled(Gaussian(root), p))
    return last.compose(Subsampled(Gaussian(2.0 * unit), p).self_compose(steps - start))


@published("tradeoff", f"{PAPER}, Theorem 4.10")
def theorem_4_10(
    *,
    L: float,
    b: int,
    n: int,
    noise_std: float,
    step_size: float,
    diameter: float,
    steps: int,
    start: int,
) -> TradeOff:
    """The trade-off function G(√2·D/(ησ√(t − τ))) ⊗ C_{b/n}(G(2√2·L/(bσ)))^⊗(t−τ) of the last
    iterate.

    It holds for batches of fixed size and convex losses on a set of diameter D.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    b : int, at least 1
        Records in a batch.
    n : int, at least 1
        Records of the data set.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    step_size : float, above 0
        η, the size of a step.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    steps : int, at least 1
        Number of steps.
    start : int, in 0..steps − 1
        τ, the step from which the distance is paid for.

    Returns
    -------
    Published
        `value` is a trade-off function, a `pabi.tradeoff` object.

    Raises
    ------
    NotApplicable
        For a start outside of 0..steps − 1.

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem 4.10.
    """
    require(0 <= start < steps, "start in 0..steps − 1")
    left = steps - start
    shift = Gaussian(math.sqrt(2.0) * diameter / (step_size * noise_std * math.sqrt(left)))
    pull = Subsampled(Gaussian(2.0 * math.sqrt(2.0) * L / (b * noise_std)), b / n)
    return shift.compose(pull.self_compose(left))


@published("gdp_lower", f"{PAPER}, Theorem C.16")
def theorem_c_16(
    *,
    L: float,
    b: int,
    noise_std: float,
    step_size: float,
    diameter: float,
    epochs: int,
    batches_per_epoch: int = 1,
    c_0: float = 1.0 / 1900.0,
    c_1: float = 0.03,
) -> float:
    """A lower bound on μ for convex losses on a bounded set: c₁/σ·√(LD/(ηn)), n = bl.

    At a smaller μ not every such run is μ-GDP. Case (a) has full batches, b = n and l
    = 1; case (b) has cyclic batches. The paper leaves the universal constants c₀ < 1/5, c₁ > 0
    open; the defaults meet the two conditions of its proof, c₁ > √c₀ and e^(−c₁²x)·(½ − Φ(−½)) ≥
    e^(−0.9x/5.6) + e^(−0.01x/5.6) for all x ≥ 1/c₀.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    b : int, at least 1
        Records in a batch.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    step_size : float, above 0
        η, the size of a step.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    epochs : int, at least 1
        E, the number of passes over the data.
    batches_per_epoch : int, at least 1
        l, the number of batches of one pass.
    c_0 : float, in (0, 1/5)
        c₀ of the hypothesis on the noise.
    c_1 : float, above 0
        c₁, the constant of the bound.

    Returns
    -------
    Published
        `value` is μ, a lower bound on every true one.

    Raises
    ------
    NotApplicable
        Unless σ² ≤ c₀LD/(ηn) and E ≥ Db/(ηL) ≥ 1/2.

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem C.16.
    """
    scale = L * diameter / (step_size * b * batches_per_epoch)
    require(noise_std**2 <= c_0 * scale, f"noise_std² ≤ c₀LD/(ηn) = {shown_down(c_0 * scale)}")
    ratio = diameter * b / (step_size * L)
    require(ratio >= 0.5 and epochs >= ratio, f"E ≥ Db/(ηL) = {shown(ratio)} ≥ 1/2")
    return c_1 * math.sqrt(scale) / noise_std


@published("gdp_lower", f"{PAPER}, Theorem C.17")
def theorem_c_17(
    *, L: float, b: int, noise_std: float, slope: float, batches_per_epoch: int, epochs: int
) -> float:
    """The exact μ = L/(bσ)·√((1 − c^(lE))/(1 + c^(lE))·(1 − c²)/(1 − c^l)²) of quadratic losses.

    It is that of the record in the last batch; no smaller μ holds in the setting of Theorem 4.5.

    Parameters
    ----------
    L : float, above 0
        Gradient sensitivity: how far one record can move the sum of the gradients of a batch.
    b : int, at least 1
        Records in a batch.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    slope : float, in (0, 1)
        c, the Lipschitz constant of a gradient step.
    batches_per_epoch : int, at least 1
        l, the number of batches of one pass.
    epochs : int, at least 1
        E, the number of passes over the data.

    Returns
    -------
    Published
        `value` is μ, a lower bound on every true one.

    Raises
    ------
    NotApplicable
        Unless 0 < c < 1.

    References
    ----------
    Bok, Su, Altschuler 2024, Theorem C.17.
    """
    require(0.0 < slope < 1.0, "0 < slope < 1")
    l = batches_per_epoch  # noqa: E741
    return L / (b * noise_std) * math.sqrt(_saturation(slope, l * epochs) * _forgotten(slope, l))


@published("gdp", f"{PAPER}, Proposition 5.1")
def proposition_5_1(*, L: float, strong_convexity: float, step_size: float) -> float:
    """The parameter μ = √((2 − ηm)/2)·L/√m of Langevin Monte Carlo after any number of steps.

    F and F' are m-strongly convex, F − F' is L-Lipschitz, the noise is √(2η), and η ≤ 2/(M + m).

    Parameters
    ----------
    L : float, above 0
        Lipschitz constant of F − F'.
    strong_convexity : float, above 0
        m, the strong convexity of F and of F'.
    step_size : float, at least 0
        η, the size of a step.

    Returns
    -------
    Published
        `value` is μ.

    Raises
    ------
    ZeroDivisionError
        For m = 0.
    ValueError
        For ηm > 2.

    References
    ----------
    Bok, Su, Altschuler 2024, Proposition 5.1.
    """
    return math.sqrt(0.5 * (2.0 - step_size * strong_convexity) / strong_convexity) * L


@published("gdp", f"{PAPER}, Corollary 5.2")
def corollary_5_2(*, L: float, strong_convexity: float, step_size: float = 0.0) -> float:
    """The parameter μ = √((2 − ηm)/2)·L/√m of the stationary laws of Langevin Monte Carlo.

    They are those of the chains of `proposition_5_1`. At η = 0 it is L/√m, that of exp(−F) and
    exp(−F') themselves.

    Parameters
    ----------
    L : float, above 0
        Lipschitz constant of F − F'.
    strong_convexity : float, above 0
        m, the strong convexity of F and of F'.
    step_size : float, at least 0
        η, the size of a step.

    Returns
    -------
    Published
        `value` is μ.

    Raises
    ------
    ZeroDivisionError
        For m = 0.
    ValueError
        For ηm > 2.

    References
    ----------
    Bok, Su, Altschuler 2024, Corollary 5.2.
    """
    return math.sqrt(0.5 * (2.0 - step_size * strong_convexity) / strong_convexity) * L


@published("gdp", f"{PAPER}, Corollary 5.4")
def corollary_5_4(*, L: float, diameter: float, step_size: float = 0.0) -> float:
    """The parameter μ = √(4LD + 2ηL²) of the stationary laws of projected Langevin Monte Carlo.

    F and F' are convex and L-Lipschitz on a set of diameter D. At η = 0 it is 2√(LD), that of
    exp(−F) on the set itself.

    Parameters
    ----------
    L : float, above 0
        Lipschitz constant of F and of F'.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    step_size : float, at least 0
        η, the size of a step.

    Returns
    -------
    Published
        `value` is μ.

    Raises
    ------
    ValueError
        Where 4LD + 2ηL² is negative.

    References
    ----------
    Bok, Su, Altschuler 2024, Corollary 5.4.
    """
    return math.sqrt(4.0 * L * diameter + 2.0 * step_size * L**2)

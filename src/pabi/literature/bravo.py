"""Bravo, Flores-Mella, Guzmán: projected Langevin and noisy SGD under a modulus of continuity.

*Mixing Times and Privacy Analysis for the Projected Langevin Algorithm under a Modulus of Continuity.*
Their noisy iteration adds noise of standard deviation `step_noise_std` to the iterate; their section
5 adds η·`noise_std`, so that `noise_std` acts on the gradient. κ (`kappa`, printed c) is a *squared*
slope: ω(δ) = √(κδ² + h). Divergences hold at every order α > 1; at the default, 2, a value α·μ²/2 is
the squared parameter of the Gaussian trade-off function that the same shifts prove.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pabi.literature.published import geometric, published, require
from pabi.numbers.showing import shown, shown_down

PAPER = "Bravo, Flores-Mella, Guzmán"
_CONDITIONED = (
    "the proof conditions on noise that is correlated with the record's membership in the batch; "
    "given that noise the batches of the two runs differ in law, and the inequality is false"
)
_READING = "the number of steps is illegible; read as ⌈1/η⌉ the bound is refuted by linear losses. "


def _squared_mu(
    kappa: Sequence[float], h: Sequence[float], sigma: Sequence[float], diameter: float
) -> float:
    """D²·Π_k κ_k/S_0 + Σ_k h_k·Π_{l>k} κ_l/S_k, S_k = Σ_{j≥k} σ_j²·Π_{l>j} κ_l (0-based)."""
    total, tail, s = 0.0, 1.0, 0.0
    for c, gap, noise in zip(reversed(kappa), reversed(h), reversed(sigma), strict=True):
        s += noise * noise * tail
        total += gap * tail / s
        tail *= c
    return total + diameter * diameter * tail / s


@published("rdp", f"{PAPER}, Theorem 3.4")
def theorem_3_4(
    kappa: Sequence[float],
    h: Sequence[float],
    sigma: Sequence[float],
    diameter: float,
    order: float = 2.0,
) -> float:
    """The Rényi divergence of two iterations that differ in where they start, for moduli √(κδ² +
    h).

    Step k has the modulus of continuity ω_k(δ) = √(κ_k δ² + h_k). Sound, and optimal among paths
    that stay positive; where a path may end early, ω(0) = 0 makes a shorter one cheaper (docs,
    "Errata").

    Parameters
    ----------
    kappa : sequence of float, above 0, one a step
        κ_k, the *squared* slope of step k.
    h : sequence of float, at least 0, one a step
        h_k, what step k adds to the squared distance.
    sigma : sequence of float, above 0, one a step
        σ_k, the standard deviation of the noise on the iterate.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    ValueError
        For sequences of different lengths.
    ZeroDivisionError
        For no steps.

    References
    ----------
    Bravo, Flores-Mella, Guzmán, Theorem 3.4 (the closed form; its displayed indices run from 0);
    docs, "Errata".
    """
    return 0.5 * order * _squared_mu(kappa, h, sigma, diameter)


@published("rdp", f"{PAPER}, Corollary 3.7")
def corollary_3_7(
    *,
    diameter: float,
    h: float,
    step_noise_std: float,
    steps: int,
    order: float = 2.0,
    logarithm: bool = False,
) -> float:
    """The Rényi divergence for ω(δ) = √(δ² + h): α/(2σ²)·(D²/T + h·Σ_{t≤T} 1/t).

    Parameters
    ----------
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    h : float, at least 0
        h, what every step adds to the squared distance.
    step_noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the iterate.
    steps : int, at least 1
        Number of steps.
    order : float, above 1
        α, the order of the divergence.
    logarithm : bool
        Whether to take the second, larger display, with ln(T·e) for the harmonic sum.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    ZeroDivisionError
        For a noise of 0, or no steps.

    References
    ----------
    Bravo, Flores-Mella, Guzmán, Corollary 3.7.
    """
    if logarithm:
        harmonic = math.log(steps) + 1.0
    else:
        harmonic = math.fsum(1.0 / t for t in range(1, steps + 1))
    return order / (2.0 * step_noise_std**2) * (diameter**2 / steps + h * harmonic)


@published("rdp", f"{PAPER}, Corollary 3.8")
def corollary_3_8(
    *, diameter: float, kappa: float, step_noise_std: float, steps: int, order: float = 2.0
) -> float:
    """The Rényi divergence for ω(δ) = √κ·δ: α D² κ^T(1 − κ)/(2σ²(1 − κ^T)).

    At κ = 1 it is α D²/(2σ²T).

    Parameters
    ----------
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    kappa : float, above 0
        κ, the *squared* slope of every step.
    step_noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the iterate.
    steps : int, at least 1
        Number of steps.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    ZeroDivisionError
        For κ = 0, a noise of 0, or no steps.

    References
    ----------
    Bravo, Flores-Mella, Guzmán, Corollary 3.8.
    """
    return order * diameter**2 / (2.0 * step_noise_std**2) * _forgetting(kappa, steps)


def _forgetting(kappa: float, steps: int) -> float:
    """κ^T(1 − κ)/(1 − κ^T), which is 1/(κ^−1 + … + κ^−T)."""
    return kappa / geometric(1.0 / kappa, steps)


@published("rdp", f"{PAPER}, Corollary 3.9")
def corollary_3_9(
    *,
    diameter: float,
    offset: float,
    rate: float,
    smoothness: float,
    step_size: float,
    step_noise_std: float,
    steps: int,
    order: float = 2.0,
    logarithm: bool = False,
) -> float:
    """The Rényi divergence for (λ, κ)-strongly dissipative and β-smooth potentials.

    With c = 1 − 2ηκ + η²β² and h = 2ηλ it is α/(2σ²)·(D²c^T(1 − c)/(1 − c^T) + h·Σ_{t<T} c^t/(1 + …
    + c^t)).

    Parameters
    ----------
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    offset : float, at least 0
        λ of the dissipativity.
    rate : float, above 0
        κ of the dissipativity.
    smoothness : float, above 0
        β, the smoothness of the potential.
    step_size : float, above 0
        η, the size of a step.
    step_noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the iterate.
    steps : int, at least 1
        Number of steps.
    order : float, above 1
        α, the order of the divergence.
    logarithm : bool
        Whether to take the second display, with 1 + ln((1 − c^T)/(1 − c)) for the sum.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless 1 − 2ηκ + η²β² > 0.

    References
    ----------
    Bravo, Flores-Mella, Guzmán, Corollary 3.9.
    """
    c = 1.0 - 2.0 * step_size * rate + (step_size * smoothness) ** 2
    require(c > 0.0, "1 − 2ηκ + η²β² > 0")
    h = 2.0 * step_size * offset
    if logarithm:
        total = 1.0 + math.log(geometric(c, steps))
    else:
        total = math.fsum(c**t / geometric(c, t + 1) for t in range(steps))
    scale = order / (2.0 * step_noise_std**2)
    return scale * (diameter**2 * _forgetting(c, steps) + h * total)


def step_size_bound(*, diameter: float, exponent: float, constant: float) -> float:
    """Θ of (10): the mixing bounds need 1/η ≥ Θ.

    (M/2)^(2/(1+p))·[r·max{16 ln(√(2e)·D·(M/2)^(1/(1+p))), 27}]^r with r = (1 − p)/(1 + p). The display
    is garbled; this form was recovered from its proof, which it makes true.
    """
    p, half = exponent, 0.5 * constant
    r = (1.0 - p) / (1.0 + p)
    logarithm = math.log(math.sqrt(2.0 * math.e) * diameter * half ** (1.0 / (1.0 + p)))
    return float(half ** (2.0 / (1.0 + p)) * (r * max(16.0 * logarithm, 27.0)) ** r)


@published("steps", f"{PAPER}, Lemma 4.1")
def lemma_4_1(
    *, diameter: float, step_size: float, exponent: float = 1.0, constant: float = 0.0
) -> float:
    """The number of steps ⌈D²/η⌉ after which two projected Langevin chains are within 1/2 in total
    variation.

    Potentials are convex with a Hölder gradient.

    Parameters
    ----------
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    step_size : float, above 0
        η, the size of a step.
    exponent : float, in [0, 1]
        p, the Hölder exponent of the gradients.
    constant : float, at least 0
        M, the Hölder constant of the gradient.

    Returns
    -------
    Published
        `value` is a number of steps.

    Raises
    ------
    NotApplicable
        Unless 1/η ≥ Θ of (10).

    References
    ----------
    Bravo, Flores-Mella, Guzmán, Lemma 4.1.
    """
    if constant > 0.0:
        theta = step_size_bound(diameter=diameter, exponent=exponent, constant=constant)
        require(1.0 / step_size >= theta, f"1/η ≥ Θ = {shown(theta)}")
    return float(math.ceil(diameter**2 / step_size))


@published("steps", f"{PAPER}, Theorem 4.2")
def theorem_4_2(
    *,
    diameter: float,
    step_size: float,
    total_variation: float,
    exponent: float = 1.0,
    constant: float = 0.0,
) -> float:
    """The number of steps ⌈D²/η⌉·⌈log₂(1/ε)⌉ after which a projected Langevin chain is within ε of
    its stationary law.

    Potentials are convex with a Hölder gradient.

    Parameters
    ----------
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    step_size : float, above 0
        η, the size of a step.
    total_variation : float, in (0, 1)
        ε, the distance in total variation.
    exponent : float, in [0, 1]
        p, the Hölder exponent of the gradients.
    constant : float, at least 0
        M, the Hölder constant of the gradient.

    Returns
    -------
    Published
        `value` is a number of steps.

    Raises
    ------
    NotApplicable
        Unless 1/η ≥ Θ of (10).

    References
    ----------
    Bravo, Flores-Mella, Guzmán, Theorem 4.2.
    """
    half = lemma_4_1(diameter=diameter, step_size=step_size, exponent=exponent, constant=constant)
    return float(half) * math.ceil(-math.log2(total_variation))


def sampled_gaussian_order(probability: float, noise: float) -> float:
    """The largest order α*(q, σ) for which Lemma A.18 bounds the sampled Gaussian by 2αq²/σ².

    The largest α with α ≤ Mσ²/2 − ln σ² and α ≤ (M²σ²/2 − ln(5σ²))/(M + ln(qα) + 1/(2σ²)), where
    M = ln(1 + 1/(q(α − 1))); the display is garbled and was read as in Mironov, Talwar, Zhang 2019,
    Theorem 11. Returns 1.0 if no order qualifies.
    """
    q, s2 = probability, noise * noise

    def admitted(alpha: float) -> bool:
        m = math.log1p(1.0 / (q * (alpha - 1.0)))
        low = m + math.log(q * alpha) + 0.5 / s2
        first = 0.5 * m * s2 - math.log(s2)
        second = 0.5 * m * m * s2 - math.log(5.0 * s2)
        return alpha <= first and low > 0.0 and alpha <= second / low

    best = 1.0
    for k in range(1, 2001):
        alpha = 1.0 + 1e-3 * 1.01**k
        if admitted(alpha):
            best = alpha
    return best


def _require_noisy_sgd(
    *, L: float, b: int, n: int, noise_std: float, order: float, smallest_noise: float
) -> None:
    require(noise_std >= smallest_noise * L / b, f"noise_std ≥ {shown(smallest_noise, 4)}·L/b")
    require(order > 1.0, "order > 1")
    require(b <= n, "b ≤ n")


def window(*, L: float, n: int, diameter: float, step_size: float) -> int:
    """T̄ = ⌈Dn/(4ηL)⌉ of Theorem 5.2."""
    return math.ceil(diameter * n / (4.0 * step_size * L))


def _weakly_smooth_term(steps: int, step_size: float, exponent: float, constant: float) -> float:
    """4η^(2p/(1−p))·(1 − p)/(1 + p)·(M/2)^(2/(1−p))·ln(T̄e); its limit at p = 1."""
    p = exponent
    if p == 1.0:
        require(step_size * constant <= 2.0, "η ≤ 2/M for p = 1")
        return 0.0
    power = 2.0 / (1.0 - p)
    factor = float((0.5 * step_size * constant) ** power) / step_size**2
    return 4.0 * (1.0 - p) / (1.0 + p) * factor * (math.log(steps) + 1.0)


@published("rdp", f"{PAPER}, Theorem 5.2", "unverified", _CONDITIONED)
def theorem_5_2(
    *,
    L: float,
    b: int,
    n: int,
    diameter: float,
    step_size: float,
    exponent: float,
    constant: float,
    noise_std: float,
    steps: int,
    order: float,
) -> float:
    """The Rényi divergence of the last iterate of noisy SGD with Poisson batches on convex losses.

    With T̄ = ⌈Dn/(4ηL)⌉ it is α/σ²·(16L²T̄/n² + D²/(η²T̄) +
    4η^(2p/(1−p))·(1−p)/(1+p)·(M/2)^(2/(1−p))·ln(T̄e)). Gradients are bounded and Hölder.
    Unverified: the proof conditions on noise that depends on the batch. It also needs batches of
    bounded size and b/n < 1/5, which are not stated.

    Parameters
    ----------
    L : float, above 0
        Bound on the norm of every record's gradient.
    b : int, in 1..n
        Expected number of records in a batch.
    n : int, at least 1
        Records of the data set.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    step_size : float, above 0
        η, the size of a step.
    exponent : float, in [0, 1]
        p, the Hölder exponent of the gradients.
    constant : float, above 0
        M, the Hölder constant of the gradients.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    steps : int, at least 1
        Number of steps.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless T ≥ T̄, σ ≥ 8√2·L/b and 1 < α ≤ α*(b/n, bσ/(2√2L)); at p = 1 also unless η ≤ 2/M.

    References
    ----------
    Bravo, Flores-Mella, Guzmán, Theorem 5.2; docs, "Errata".
    """
    _require_noisy_sgd(
        L=L, b=b, n=n, noise_std=noise_std, order=order, smallest_noise=8.0 * math.sqrt(2.0)
    )
    t = window(L=L, n=n, diameter=diameter, step_size=step_size)
    require(steps >= t, f"at least T̄ = {t} steps")
    top = sampled_gaussian_order(b / n, b * noise_std / (2.0 * math.sqrt(2.0) * L))
    require(order <= top, f"order ≤ α* = {shown_down(top, 4)}")
    rough = _weakly_smooth_term(t, step_size, exponent, constant)
    inner = 16.0 * L**2 * t / n**2 + diameter**2 / (step_size**2 * t) + rough
    return order / noise_std**2 * inner


def remark_5_3_steps(
    *,
    L: float,
    n: int,
    diameter: float,
    step_size: float,
    exponent: float,
    constant: float,
) -> float:
    """2T̄ + V(D, M, T̄, n, p), the number of steps at which the privacy curve stops (Figure 1).

    V = (n/(2L))²·η^(2p/(1−p))·(1−p)/(1+p)·(M/2)^(2/(1−p))·ln(T̄e).
    """
    t = window(L=L, n=n, diameter=diameter, step_size=step_size)
    rough = _weakly_smooth_term(t, step_size, exponent, constant)
    return 2.0 * t + n**2 / (16.0 * L**2) * rough


@published("rdp", f"{PAPER}, Remark 5.3", "unverified", _CONDITIONED)
def remark_5_3(
    *,
    L: float,
    b: int,
    n: int,
    diameter: float,
    step_size: float,
    exponent: float,
    constant: float,
    noise_std: float,
    steps: int,
    order: float,
) -> float:
    """The Rényi divergence 16αL²/(n²σ²)·min{T, 2T̄ + V} of noisy SGD after any number of steps.

    As `theorem_5_2`, which it rounds up, joined with composition; unverified for the same reason. V
    is (n/(2L))²·η^(2p/(1−p))·(1−p)/(1+p)·(M/2)^(2/(1−p))·ln(T̄e).

    Parameters
    ----------
    L : float, above 0
        Bound on the norm of every record's gradient.
    b : int, in 1..n
        Expected number of records in a batch.
    n : int, at least 1
        Records of the data set.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    step_size : float, above 0
        η, the size of a step.
    exponent : float, in [0, 1]
        p, the Hölder exponent of the gradients.
    constant : float, above 0
        M, the Hölder constant of the gradients.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    steps : int, at least 1
        Number of steps.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless σ ≥ 8√2·L/b and 1 < α ≤ α*(b/n, bσ/(2√2L)); at p = 1 also unless η ≤ 2/M.

    References
    ----------
    Bravo, Flores-Mella, Guzmán, Remark 5.3; docs, "Errata".
    """
    _require_noisy_sgd(
        L=L, b=b, n=n, noise_std=noise_std, order=order, smallest_noise=8.0 * math.sqrt(2.0)
    )
    top = sampled_gaussian_order(b / n, b * noise_std / (2.0 * math.sqrt(2.0) * L))
    require(order <= top, f"order ≤ α* = {shown_down(top, 4)}")
    capped = remark_5_3_steps(
        L=L, n=n, diameter=diameter, step_size=step_size, exponent=exponent, constant=constant
    )
    return 16.0 * order * L**2 / (n * noise_std) ** 2 * min(float(steps), capped)


def nonconvex_steps(step_size: float, smoothness: float, with_smoothness: bool) -> int:
    """T̄ of Theorem 5.4 in either reading: ⌈1/(ηβ)⌉, or ⌈1/η⌉."""
    return math.ceil(1.0 / (step_size * smoothness) if with_smoothness else 1.0 / step_size)


def _nonconvex(
    *,
    L: float,
    n: int,
    diameter: float,
    step_size: float,
    smoothness: float,
    with_smoothness: bool,
) -> float:
    """52L²T̄/n² + 4D²β/η + 2D²β²."""
    t = nonconvex_steps(step_size, smoothness, with_smoothness)
    rough = 4.0 * diameter**2 * smoothness / step_size + 2.0 * (diameter * smoothness) ** 2
    return 52.0 * L**2 * t / n**2 + rough


@published("rdp", f"{PAPER}, Theorem 5.4", "unverified", _READING + _CONDITIONED)
def theorem_5_4(
    *,
    L: float,
    b: int,
    n: int,
    diameter: float,
    step_size: float,
    smoothness: float,
    noise_std: float,
    steps: int,
    order: float,
    with_smoothness: bool = False,
) -> float:
    """The Rényi divergence α/σ²·(52L²T̄/n² + 4D²β/η + 2D²β²) of noisy SGD on nonconvex losses.

    Batches have a fixed size. T̄ is illegible and read as ⌈1/η⌉, or as ⌈1/(ηβ)⌉. Unverified: read
    as ⌈1/η⌉ it is refuted by linear losses; either way the proof conditions on noise that depends
    on the batch.

    Parameters
    ----------
    L : float, above 0
        Bound on the norm of every record's gradient.
    b : int, at most n/10
        Records in a batch.
    n : int, at least 1
        Records of the data set.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    step_size : float, above 0
        η, the size of a step.
    smoothness : float, above 0
        β, the smoothness of every record's loss.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    steps : int, at least 1
        Number of steps.
    order : float, above 1
        α, the order of the divergence.
    with_smoothness : bool
        Whether to read T̄ as ⌈1/(ηβ)⌉, under which the last display of the proof holds.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless T ≥ T̄, b ≤ n/10, σ ≥ 2√10·L/b and 1 < α ≤ b²σ²/(16L²)·ln(n/b).

    References
    ----------
    Bravo, Flores-Mella, Guzmán, Theorem 5.4; docs, "Errata".
    """
    _require_noisy_sgd(
        L=L, b=b, n=n, noise_std=noise_std, order=order, smallest_noise=2.0 * math.sqrt(10.0)
    )
    require(10 * b <= n, "b ≤ n/10")
    t = nonconvex_steps(step_size, smoothness, with_smoothness)
    require(steps >= t, f"at least T̄ = {t} steps")
    top = nonconvex_order(L=L, b=b, n=n, noise_std=noise_std)
    require(order <= top, f"order ≤ α* = {shown_down(top, 4)}")
    inner = _nonconvex(
        L=L,
        n=n,
        diameter=diameter,
        step_size=step_size,
        smoothness=smoothness,
        with_smoothness=with_smoothness,
    )
    return order / noise_std**2 * inner


def nonconvex_order(*, L: float, b: int, n: int, noise_std: float) -> float:
    """α* = b²σ²/(16L²)·ln(n/b), the largest order of Theorem 5.4."""
    return (b * noise_std / L) ** 2 / 16.0 * math.log(n / b)


@published("epsilon", f"{PAPER}, (22)", "unverified", _READING + _CONDITIONED)
def equation_22(
    *,
    L: float,
    b: int,
    n: int,
    diameter: float,
    step_size: float,
    smoothness: float,
    noise_std: float,
    delta: float,
    with_smoothness: bool = False,
) -> float:
    """ε at δ from Theorem 5.4: A/σ² + (2/σ)·√(A·ln(1/δ)), A = 52L²T̄/n² + 4D²β/η + 2D²β².

    Unverified, as `theorem_5_4`.

    Parameters
    ----------
    L : float, above 0
        Bound on the norm of every record's gradient.
    b : int, at least 1
        Records in a batch.
    n : int, at least 1
        Records of the data set.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    step_size : float, above 0
        η, the size of a step.
    smoothness : float, above 0
        β, the smoothness of every record's loss.
    noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the gradient.
    delta : float, in (0, 1)
        δ of the guarantee.
    with_smoothness : bool
        Whether to read T̄ as ⌈1/(ηβ)⌉, under which the last display of the proof holds.

    Returns
    -------
    Published
        `value` is ε.

    Raises
    ------
    NotApplicable
        Unless the order that it needs, 1 + σ·√(ln(1/δ)/A), is at most α* (23).

    References
    ----------
    Bravo, Flores-Mella, Guzmán, (22); docs, "Errata".
    """
    inner = _nonconvex(
        L=L,
        n=n,
        diameter=diameter,
        step_size=step_size,
        smoothness=smoothness,
        with_smoothness=with_smoothness,
    )
    order = 1.0 + noise_std * math.sqrt(-math.log(delta) / inner)
    top = nonconvex_order(L=L, b=b, n=n, noise_std=noise_std)
    require(order <= top, f"order {shown(order, 4)} ≤ α* = {shown_down(top, 4)}, (23)")
    return inner / noise_std**2 + 2.0 / noise_std * math.sqrt(-math.log(delta) * inner)

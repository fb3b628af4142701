"""Ganesh, Thakurta, Upadhyay: the universality of Langevin diffusion for private optimisation.

*On the Universality of Langevin Diffusion for Private Euclidean (Convex) Optimization*, read as submitted.
dθ = −β_t ∇L(θ) dt + √2 dW, reflected at the boundary of a convex set; L the mean loss over n records,
Δ = `gradient_gap` a bound on ‖∇L_D − ∇L_{D'}‖, p = `dimension`. m, M: strong convexity and smoothness of L.
"""

from __future__ import annotations

import math

from pabi.literature.published import published, require
from pabi.numbers.showing import shown

PAPER = "Ganesh, Thakurta, Upadhyay"


@published("rdp", f"{PAPER}, Lemma C.1")
def lemma_c_1(
    *,
    gradient_gap: float,
    time: float,
    inverse_temperature: float = 1.0,
    squared_integral: float | None = None,
    order: float = 2.0,
) -> float:
    """The Rényi divergence αΔ²/4·∫β_t²dt of the whole path of a diffusion.

    Parameters
    ----------
    gradient_gap : float, at least 0
        Δ, a bound on the distance between the gradients of the mean losses of adjacent data sets.
    time : float, above 0
        T, how long the diffusion runs.
    inverse_temperature : float, above 0
        β, where it is constant over time.
    squared_integral : float, above 0, optional
        ∫β_t²dt over the run; the default is β²T.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    TypeError
        For what is no number.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Lemma C.1.
    """
    integral = inverse_temperature**2 * time if squared_integral is None else squared_integral
    return 0.25 * order * gradient_gap**2 * integral


@published(
    "rdp",
    f"{PAPER}, Lemma I.1 (the constants of its proof)",
    "unverified",
    "the burn-in t₀ = 2 log((α − 1)max{2, M/m}) lacks the unit 1/(βm) of a time and is taken at order α "
    "where the proof needs 3α; a corrected form is in docs, Errata",
)
def lemma_i_1(
    *,
    m: float,
    M: float,
    inverse_temperature: float,
    dimension: int,
    radius: float,
    time: float,
    stationary: float,
    order: float,
) -> float:
    """The Rényi divergence of two diffusions started from N(0, I/(βm)), unconstrained.

    [βmR²·(max{30, 5(M/m)² + 10M/m} + 18α − 3)/6 + (5pM/m + 3p)/6·ln(M/m)]·exp(−(T − t₀)βm/(3α)) +
    (4/3)·S, with t₀ = 2 ln((α − 1)·max{2, M/m}). The statement has O(·); these are the constants of
    its proof's last display. Unverified, see `note`.

    Parameters
    ----------
    m : float, above 0
        Strong convexity of the mean loss.
    M : float, above 0
        Smoothness: the largest curvature of the mean loss.
    inverse_temperature : float, above 0
        β, constant over time.
    dimension : int, at least 1
        p, the number of parameters.
    radius : float, above 0
        R, a bound on the norm of both minimisers.
    time : float, above 0
        T, how long the diffusion runs.
    stationary : float, at least 0
        S, the divergence of order 3α of the stationary laws, in nats.
    order : float, at least 2
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless α ≥ 2 and T ≥ t₀.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Lemma I.1 (the constants of its proof); docs, "Errata".
    """
    require(order >= 2.0, "order ≥ 2")
    ratio, scale = M / m, inverse_temperature * m
    start = 2.0 * math.log((order - 1.0) * max(2.0, ratio))
    require(time >= start, f"time ≥ t₀ = {shown(start)}")
    first = (
        scale * radius**2 * (max(30.0, 5.0 * ratio**2 + 10.0 * ratio) + 18.0 * order - 3.0) / 6.0
    )
    second = (5.0 * dimension * ratio + 3.0 * dimension) / 6.0 * math.log(ratio)
    decay = math.exp(-(time - start) * scale / (3.0 * order))
    return (first + second) * decay + 4.0 / 3.0 * stationary


@published("rdp", f"{PAPER}, Lemma I.2 (Chourasia, Ye, Shokri 2021, Corollary 1)")
def lemma_i_2(
    *,
    m: float,
    inverse_temperature: float,
    gradient_gap: float,
    time: float,
    order: float = 2.0,
) -> float:
    """The Rényi divergence αβΔ²/m·(1 − e^(−βmT/2)) of a diffusion's last point, for m-strongly
    convex losses.

    Sound; 1.66 to 2 times the exact value for quadratics, α/2·(Δ²β/m)·tanh(βmT/2).

    Parameters
    ----------
    m : float, above 0
        Strong convexity of the mean loss.
    inverse_temperature : float, above 0
        β, constant over time.
    gradient_gap : float, at least 0
        Δ, a bound on the distance between the gradients of the mean losses of adjacent data sets.
    time : float, above 0
        T, how long the diffusion runs.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    ZeroDivisionError
        For m = 0.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Lemma I.2 (Chourasia, Ye, Shokri 2021, Corollary 1).
    """
    exponent = 0.5 * inverse_temperature * m * time
    return -order * inverse_temperature * gradient_gap**2 / m * math.expm1(-exponent)


def switch_of_regimes(
    *,
    m: float,
    M: float,
    inverse_temperature: float,
    gradient_gap: float,
    dimension: int,
    radius: float,
    stationary: float,
    order: float,
) -> float:
    """The time from which `lemma_i_1` is below `lemma_i_2`, where both are as printed; ∞ if it never is.

    Arguments as there. Appendix I.2 gives its order of magnitude, this is the time itself.
    """
    from scipy.optimize import brentq

    unit = order / (inverse_temperature * m)
    begin = max(0.0, 2.0 * math.log((order - 1.0) * max(2.0, M / m)))

    def excess(time: float) -> float:
        long = lemma_i_1(
            m=m,
            M=M,
            inverse_temperature=inverse_temperature,
            dimension=dimension,
            radius=radius,
            time=time,
            stationary=stationary,
            order=order,
        )
        short = lemma_i_2(
            m=m,
            inverse_temperature=inverse_temperature,
            gradient_gap=gradient_gap,
            time=time,
            order=order,
        )
        return float(long) - float(short)

    if excess(begin) <= 0.0:
        return begin
    length = unit
    while excess(begin + length) > 0.0:
        if length > 1e6 * unit:
            return math.inf
        length *= 2.0
    return float(brentq(excess, begin, begin + length, rtol=1e-12))


@published("risk", f"{PAPER}, Theorem F.1 (33)")
def equation_33(
    *, inverse_temperature: float, dimension: int, diameter: float, time: float
) -> float:
    """The expected excess empirical risk 2p/β + D²/(βT) of a diffusion's last point, for convex
    losses.

    The printed proof differentiates the average over the last k units of time as though ∂(1/k) were
    0; the bound is true all the same: the excess is at most (p/β)·x, x − 1 − ln x = D²/(4pT) (docs,
    "Errata").

    Parameters
    ----------
    inverse_temperature : float, above 0
        β, constant over time.
    dimension : int, at least 1
        p, the number of parameters.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    time : float, above 0
        T, how long the diffusion runs.

    Returns
    -------
    Published
        `value` is an expected excess risk, in units of the loss.

    Raises
    ------
    ZeroDivisionError
        For β = 0 or T = 0.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Theorem F.1 (33); docs, "Errata".
    """
    return 2.0 * dimension / inverse_temperature + diameter**2 / (inverse_temperature * time)


@published("risk", f"{PAPER}, Theorem F.1 (35)")
def theorem_f_1(
    *, L: float, n: int, dimension: int, diameter: float, epsilon: float, delta: float
) -> float:
    """The expected excess empirical risk 8LD√(p ln(1/δ))/(εn) of an (ε, δ)-private diffusion's last
    point.

    This is (35) at T = D²/(2p), β = εn/(L√(8T ln(1/δ))). The bound is true; the printed proof is
    not, see `equation_33`.

    Parameters
    ----------
    L : float, above 0
        Lipschitz constant of every record's loss.
    n : int, at least 1
        Records of the data set.
    dimension : int, at least 1
        p, the number of parameters.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.
    epsilon : float, above 0
        ε of the guarantee.
    delta : float, in (0, 1)
        δ of the guarantee.

    Returns
    -------
    Published
        `value` is an expected excess risk, in units of the loss.

    Raises
    ------
    NotApplicable
        Unless 2 ln(1/δ) ≥ ε.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Theorem F.1 (35); docs, "Errata".
    """
    log = -math.log(delta)
    require(2.0 * log >= epsilon, "2 ln(1/δ) ≥ ε")
    time = diameter**2 / (2.0 * dimension)
    beta = epsilon * n / (L * math.sqrt(8.0 * time * log))
    bound = equation_33(inverse_temperature=beta, dimension=dimension, diameter=diameter, time=time)
    return float(bound)


@published("risk", f"{PAPER}, Theorem F.2 (42)")
def equation_42(
    *, m: float, dimension: int, squared_distance: float, time: float, power: float
) -> float:
    """The expected excess risk (mφ₀ + mp∫e^(mB_t)dt)/(e^(mB_T) − 1) of the weighted average of the
    path.

    β_t = t^a and B_t = t^(a+1)/(a + 1). Stated for 2m-strongly convex losses; true for m-strongly
    convex ones and with φ₀/2.

    Parameters
    ----------
    m : float, above 0
        Strong convexity of the mean loss.
    dimension : int, at least 1
        p, the number of parameters.
    squared_distance : float, above 0
        φ₀, the squared distance of the start from the minimiser.
    time : float, above 0
        T, how long the diffusion runs.
    power : float, above −1
        a of β_t = t^a.

    Returns
    -------
    Published
        `value` is an expected excess risk, in units of the loss.

    Raises
    ------
    OverflowError
        Where e^(mB_T) is beyond the range of doubles.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Theorem F.2 (42); docs, "Errata".
    """
    from scipy.integrate import quad

    def grown(t: float) -> float:
        return float(m * t ** (power + 1.0) / (power + 1.0))

    integral = quad(lambda t: math.exp(grown(t)), 0.0, time, epsabs=0.0, epsrel=1e-12)[0]
    return float((m * squared_distance + m * dimension * integral) / math.expm1(grown(time)))


def theorem_f_2_schedule(
    *,
    L: float,
    m: float,
    n: int,
    dimension: int,
    squared_distance: float,
    epsilon: float,
    delta: float,
) -> tuple[float, float, float]:
    """(a, T, R) of the proof of Theorem F.2: β_t = t^a up to time T, R of (49).

    a = log_max{2,T}(εn/(2L√ln(1/δ))) − 1/2 and T = (ln(R + 1)/c)², c = mεn/(2(a + 1)L√ln(1/δ)), which
    refer to each other. NotApplicable where that T is above 2, which the proof excludes.
    """
    log = -math.log(delta)
    gain = epsilon * n / (2.0 * L * math.sqrt(log))
    power = math.log2(gain) - 0.5
    ratio = (m * epsilon * n) ** 2 * dimension * squared_distance / (2.0 * L**2 * log)
    time = (math.log1p(ratio) * (power + 1.0) / (m * gain)) ** 2
    require(power >= 0.0 and time <= 2.0, "a ≥ 0 and T ≤ 2: more records")
    return power, time, ratio


@published(
    "risk",
    f"{PAPER}, Theorem F.2 (48), (49)",
    "refuted",
    "after (46) it puts c√T for mB_T, which is far smaller where T < 2: hardly any time passes, and the true "
    "excess on a one-dimensional quadratic is more than 1000 times (48); (43) also spends twice the budget",
)
def theorem_f_2(
    *,
    L: float,
    m: float,
    n: int,
    dimension: int,
    squared_distance: float,
    epsilon: float,
    delta: float,
) -> float:
    """The claimed expected excess mφ₀/R + 8p(a + 1)L² ln(1/δ) ln(R + 1)/(mε²n²) of the path's
    weighted average.

    It is claimed for (ε, δ)-privacy and 2m-strongly convex losses, with a and R as in
    `theorem_f_2_schedule`. Refuted: with the printed a and T the diffusion hardly moves, and (42)
    itself is vast. With constant β and path accounting the corrected (42) is a true bound (docs,
    "Errata").

    Parameters
    ----------
    L : float, above 0
        Lipschitz constant of every record's loss.
    m : float, above 0
        Strong convexity of the mean loss.
    n : int, at least 1
        Records of the data set.
    dimension : int, at least 1
        p, the number of parameters.
    squared_distance : float, above 0
        φ₀, the squared distance of the start from the minimiser.
    epsilon : float, above 0
        ε of the guarantee.
    delta : float, in (0, 1)
        δ of the guarantee.

    Returns
    -------
    Published
        `value` is an expected excess risk, in units of the loss.

    Raises
    ------
    NotApplicable
        Unless a ≥ 0 and T ≤ 2, which takes more records.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Theorem F.2 (48), (49); docs, "Errata".
    """
    power, _, ratio = theorem_f_2_schedule(
        L=L,
        m=m,
        n=n,
        dimension=dimension,
        squared_distance=squared_distance,
        epsilon=epsilon,
        delta=delta,
    )
    second = 8.0 * dimension * (power + 1.0) * L**2 * -math.log(delta) * math.log1p(ratio)
    return m * squared_distance / ratio + second / (m * (epsilon * n) ** 2)


@published(
    "stability",
    f"{PAPER}, Lemma F.3",
    "refuted",
    "stated without convexity, which it needs: concave quadratics drive neighbouring runs apart "
    "exponentially, 27 times the bound at ∫β = 7.4; for convex losses half of it, (2L²/n)∫β, holds",
)
def lemma_f_3(*, L: float, n: int, integral: float) -> float:
    """The claimed uniform stability 4L²/n·∫β_t dt of the last point, for L-Lipschitz losses.

    Refuted as stated; true, and twice what is needed, for convex losses.

    Parameters
    ----------
    L : float, above 0
        Lipschitz constant of every record's loss.
    n : int, at least 1
        Records of the data set.
    integral : float, at least 0
        ∫β_t dt over the run.

    Returns
    -------
    Published
        `value` is a uniform stability, in units of the loss.

    Raises
    ------
    ZeroDivisionError
        For no records.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Lemma F.3; docs, "Errata".
    """
    return 4.0 * L**2 / n * integral

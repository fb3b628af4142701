"""Kong, Ribero: cyclically sampled DP-SGD on nonconvex composite losses.

*Privacy of the Last Iterate in Cyclically-Sampled DP-SGD on Nonconvex Composite Losses.* Steps
X ← prox(X − λ·(mean of the batch's clipped gradients) + N(0, σ²I)): λ = `step_size`, σ = `step_noise_std`
on the iterate, C = `clip_norm`, b records a batch, ℓ = `batches_per_epoch`; losses of curvature in [−m, M].
Their Rényi divergences are linear in the order.
"""

from __future__ import annotations

import math

from pabi.literature.published import ROUNDED, geometric, published, require
from pabi.numbers.showing import shown

PAPER = "Kong, Ribero"
_NOT_LIPSCHITZ = (
    "its Lipschitz constant (Proposition 3.4(b)) is refuted by clipped quadratics; with the right constant "
    "of clipped steps (docs, Clipping) in its place the bound holds"
)


def theta(L: float, s: int) -> float:
    """θ_L(s) = L^(2(s−1))/Σ_{j<s} L^(2j), θ_L(0) = 0 (6)."""
    return 0.0 if s == 0 else 1.0 / geometric(L**-2, s)


def slope(m: float, M: float, step_size: float) -> float:
    """L_λ = √(1 + 2λm(1 + m/(M + m))) (12), as printed."""
    return math.sqrt(1.0 + 2.0 * step_size * m * (1.0 + m / (M + m)))


def _small_step(m: float, M: float, step_size: float) -> None:
    # 2λ(m + M) ≤ 1 up to rounding: the published examples sit on the boundary.
    require(2.0 * step_size * (m + M) <= 1.0 + ROUNDED, "λ ≤ 1/(2(m + M))")


@published("slope", f"{PAPER}, Proposition 3.4(a)")
def proposition_3_4_a(*, clip_norm: float, step_size: float, distance: float) -> float:
    """The distance ‖x − y‖ + 2λC at most that a clipped step leaves between two points.

    Parameters
    ----------
    clip_norm : float, above 0
        C, the norm that every record's gradient is clipped to.
    step_size : float, above 0
        λ, the size of a step.
    distance : float, at least 0
        ‖x − y‖, before the step.

    Returns
    -------
    Published
        `value` is a distance, in units of the parameters.

    Raises
    ------
    TypeError
        For what is no number.

    References
    ----------
    Kong, Ribero, Proposition 3.4(a).
    """
    return distance + 2.0 * step_size * clip_norm


@published(
    "slope",
    f"{PAPER}, Proposition 3.4(b)",
    "refuted",
    "a factor 2 is dropped after (14); a clipped step on a two-dimensional convex quadratic expands by "
    "1.069 at λ = 1/(2M), where 1 is claimed",
)
def proposition_3_4_b(*, m: float, M: float, step_size: float) -> float:
    """The number L_λ = √(1 + 2λm(1 + m/(M + m))), said to be a Lipschitz constant of a clipped
    gradient step.

    Refuted, for m = 0 too: clipping a convex loss's gradients can make a step expand.

    Parameters
    ----------
    m : float, at least 0
        Losses have curvature at least −m.
    M : float, above 0
        Losses have curvature at most M.
    step_size : float, above 0
        λ, the size of a step.

    Returns
    -------
    Published
        `value` is a Lipschitz constant.

    Raises
    ------
    NotApplicable
        Unless λ ≤ 1/(2(m + M)).

    References
    ----------
    Kong, Ribero, Proposition 3.4(b); docs, "Errata".
    """
    _small_step(m, M, step_size)
    return slope(m, M, step_size)


@published("rdp", f"{PAPER}, Theorem 4.3 (18)")
def theorem_4_3(
    *,
    clip_norm: float,
    step_size: float,
    step_noise_std: float,
    steps: int,
    order: float = 2.0,
) -> float:
    """The Rényi divergence 8αT(λC/σ)², whatever the losses.

    Sound, and weaker than composition, α/2·(uses)·(2λC/(bσ))².

    Parameters
    ----------
    clip_norm : float, above 0
        C, the norm that every record's gradient is clipped to.
    step_size : float, above 0
        λ, the size of a step.
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
        For a noise of 0.

    References
    ----------
    Kong, Ribero, Theorem 4.3 (18).
    """
    return 8.0 * order * steps * (step_size * clip_norm / step_noise_std) ** 2


@published("rdp", f"{PAPER}, Theorem 4.4 (20)", "unverified", _NOT_LIPSCHITZ)
def theorem_4_4(
    *,
    m: float,
    M: float,
    clip_norm: float,
    b: int,
    step_size: float,
    step_noise_std: float,
    diameter: float,
    order: float = 2.0,
) -> float:
    """The Rényi divergence α/(2σ²)·(L_λ d_h + 2λC/b)² on a bounded domain.

    Unverified: L_λ of `proposition_3_4_b` is not a Lipschitz constant.

    Parameters
    ----------
    m : float, at least 0
        Losses have curvature at least −m.
    M : float, above 0
        Losses have curvature at most M.
    clip_norm : float, above 0
        C, the norm that every record's gradient is clipped to.
    b : int, at least 1
        Records in a batch.
    step_size : float, above 0
        λ, the size of a step.
    step_noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the iterate.
    diameter : float, above 0
        d_h, the diameter of the domain.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless λ ≤ 1/(2(m + M)).

    References
    ----------
    Kong, Ribero, Theorem 4.4 (20); docs, "Errata".
    """
    _small_step(m, M, step_size)
    moved = slope(m, M, step_size) * diameter + 2.0 * step_size * clip_norm / b
    return 0.5 * order * (moved / step_noise_std) ** 2


_FROM_THE_NEXT_STEP = (
    "clipped quadratics, i* in the last batch of one epoch, b = 1, λ = 1/(2M), M = 1, C = 50, σ = 1, α = 2: "
    "divergence 1071.4 for many batches, while (22) says 100 at ℓ = 50 and falls as 1/ℓ. Lemma 4.2 counts "
    "from the step after the record's first use"
)


@published("rdp", f"{PAPER}, Theorem 4.5 (21)", "refuted", _FROM_THE_NEXT_STEP)
def theorem_4_5(
    *,
    m: float,
    M: float,
    clip_norm: float,
    b: int,
    batches_per_epoch: int,
    step_size: float,
    step_noise_std: float,
    steps: int,
    order: float = 2.0,
) -> float:
    """The Rényi divergence 4α(λC/(bσ))²·(θ(T − Eℓ) + E·θ(ℓ)), θ = θ_{L_λ}, E = ⌊T/ℓ⌋.

    Refuted: a record in the last batch is used in the very last step, whose noise alone hides it,
    whatever ℓ. With r ≥ 1 steps from the last use to the end and a true Lipschitz constant,
    2α(λC/(bσ))²·((uses − 1)·θ(ℓ) + θ(r)) holds.

    Parameters
    ----------
    m : float, at least 0
        Losses have curvature at least −m.
    M : float, above 0
        Losses have curvature at most M.
    clip_norm : float, above 0
        C, the norm that every record's gradient is clipped to.
    b : int, at least 1
        Records in a batch.
    batches_per_epoch : int, at least 1
        ℓ, the number of batches of one pass.
    step_size : float, above 0
        λ, the size of a step.
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
    NotApplicable
        Unless λ ≤ 1/(2(m + M)) and T ≥ ℓ.

    References
    ----------
    Kong, Ribero, Theorem 4.5 (21); docs, "Errata".
    """
    _small_step(m, M, step_size)
    l, constant = batches_per_epoch, slope(m, M, step_size)  # noqa: E741
    require(steps >= l, "T ≥ ℓ")
    epochs = steps // l
    shares = theta(constant, steps - epochs * l) + epochs * theta(constant, l)
    return 4.0 * order * (step_size * clip_norm / (b * step_noise_std)) ** 2 * shares


@published("rdp", f"{PAPER}, Theorem 4.5 (22)", "refuted", _FROM_THE_NEXT_STEP)
def equation_22(
    *,
    M: float,
    clip_norm: float,
    b: int,
    batches_per_epoch: int,
    step_size: float,
    step_noise_std: float,
    steps: int,
    order: float = 2.0,
) -> float:
    """The Rényi divergence 4α(λC/(bσ))²·(max{0, 1/(T − Eℓ)} + E/ℓ) of convex losses, E = ⌊T/ℓ⌋.

    Where T = Eℓ the printed term divides by zero; it is read as 0, which is θ₁(0) in (21). Refuted,
    as `theorem_4_5`.

    Parameters
    ----------
    M : float, above 0
        Losses have curvature at most M.
    clip_norm : float, above 0
        C, the norm that every record's gradient is clipped to.
    b : int, at least 1
        Records in a batch.
    batches_per_epoch : int, at least 1
        ℓ, the number of batches of one pass.
    step_size : float, above 0
        λ, the size of a step.
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
    NotApplicable
        Unless λ ≤ 1/(2M) and T ≥ ℓ.

    References
    ----------
    Kong, Ribero, Theorem 4.5 (22); docs, "Errata".
    """
    _small_step(0.0, M, step_size)
    l = batches_per_epoch  # noqa: E741
    require(steps >= l, "T ≥ ℓ")
    epochs, rest = divmod(steps, l)
    shares = (1.0 / rest if rest else 0.0) + epochs / l
    return 4.0 * order * (step_size * clip_norm / (b * step_noise_std)) ** 2 * shares


def corollary_c_2_step_size(m: float, M: float) -> float:
    """λ̄ = 1/(2(M + m))."""
    return 0.5 / (M + m)


def corollary_c_2_noise(
    *, m: float, M: float, clip_norm: float, b: int, epochs: int, order: float, target: float
) -> float:
    """σ̄ = Cλ̄/(2b)·√((1 + 4Em/(M + m))/(αε)), as printed, ε = `target`."""
    share = (1.0 + 4.0 * m / (M + m) * epochs) / (order * target)
    return clip_norm * corollary_c_2_step_size(m, M) / (2.0 * b) * math.sqrt(share)


def corollary_c_2_batches(m: float, M: float) -> float:
    """ℓ̄ = log 2/log(1 + mλ̄), which ℓ must reach."""
    return math.log(2.0) / math.log1p(m * corollary_c_2_step_size(m, M))


@published(
    "rdp",
    f"{PAPER}, Corollary C.2",
    "refuted",
    "clipped quadratics with M = 1, m = 0.01, α = 2, ε = 10, b = E = 1, i* in the last batch: divergence "
    "131.4; the printed σ̄ is 4α times smaller than what its proof, which rests on Theorem 4.5, needs",
)
def corollary_c_2(
    *,
    m: float,
    M: float,
    clip_norm: float,
    b: int,
    batches_per_epoch: int,
    epochs: int,
    step_noise_std: float,
    target: float,
    order: float = 2.0,
) -> float:
    """The target ε, said to bound the Rényi divergence with λ = λ̄(m), σ ≥ σ̄(m) and ℓ ≥ ℓ̄(m).

    λ̄, σ̄ and ℓ̄ are `corollary_c_2_step_size`, `corollary_c_2_noise` and `corollary_c_2_batches`.
    Refuted, see `note`.

    Parameters
    ----------
    m : float, above 0
        Losses have curvature at least −m.
    M : float, above 0
        Losses have curvature at most M.
    clip_norm : float, above 0
        C, the norm that every record's gradient is clipped to.
    b : int, at least 1
        Records in a batch.
    batches_per_epoch : int, at least 1
        ℓ, the number of batches of one pass.
    epochs : int, at least 1
        E, the number of passes over the data.
    step_noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the iterate.
    target : float, above 0
        ε, the divergence that is aimed at, in nats.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless m > 0, σ ≥ σ̄ and ℓ ≥ ℓ̄.

    References
    ----------
    Kong, Ribero, Corollary C.2; docs, "Errata".
    """
    require(m > 0.0, "m > 0")
    least = corollary_c_2_noise(
        m=m, M=M, clip_norm=clip_norm, b=b, epochs=epochs, order=order, target=target
    )
    require(step_noise_std >= least, f"step_noise_std ≥ σ̄ = {shown(least)}")
    batches = corollary_c_2_batches(m, M)
    require(batches_per_epoch >= batches, f"ℓ ≥ ℓ̄ = {shown(batches)}")
    return target


@published("rdp", f"{PAPER}, Corollary C.3", "unverified", _NOT_LIPSCHITZ)
def corollary_c_3(
    *,
    m: float,
    M: float,
    clip_norm: float,
    b: int,
    batches_per_epoch: int,
    epochs: int,
    step_size: float,
    step_noise_std: float,
    order: float = 2.0,
) -> float:
    """The Rényi divergence 4α(C/(bσ))²·(1 + θ_{L_λ}(ℓ)) of E whole passes, the last of which may be
    longer.

    Unverified: it is derived from the refuted Theorem 4.5, and L_λ is not a Lipschitz constant;
    both repaired, it follows.

    Parameters
    ----------
    m : float, at least 0
        Losses have curvature at least −m.
    M : float, above 0
        Losses have curvature at most M.
    clip_norm : float, above 0
        C, the norm that every record's gradient is clipped to.
    b : int, at least 1
        Records in a batch.
    batches_per_epoch : int, at least 1
        ℓ, the number of batches of one pass.
    epochs : int, at least 1
        E, the number of whole passes.
    step_size : float, above 0
        λ, the size of a step.
    step_noise_std : float, above 0
        σ, the standard deviation per coordinate of the noise on the iterate.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        Unless λ ≤ min{1/√E, 1/(2(m + M))}.

    References
    ----------
    Kong, Ribero, Corollary C.3; docs, "Errata".
    """
    _small_step(m, M, step_size)
    require(step_size**2 * epochs <= 1.0 + ROUNDED, "λ ≤ 1/√E")
    share = 1.0 + theta(slope(m, M, step_size), batches_per_epoch)
    return 4.0 * order * (clip_norm / (b * step_noise_std)) ** 2 * share

"""Bravo, Flores-Mella, Guzmán: Theorem 3.4, the six rows of Table 1, Figure 1, and their comparisons.

The four examples of Theorem 3.4 with mixed moduli were computed apart from this library.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import trapezoid

from pabi import Loss, NoisyIteration, NotApplicable
from pabi.literature import altschuler_talwar, asoodeh_diaz, balle, bravo
from support.every_case import every

# κ, h, σ; D and μ².
MIXED = """
0.684 1.3   1.145 1.221 1.497 1.439
1.686 1.554 0.79  1.282 0.369 1.519
1.588 1.526 1.056 0.943 1.014 0.357
3.455 15.35453506708767
1.042 0.888 1.048 1.222 0.881 1.331
1.839 0.775 0.276 1.521 1.986 0.296
1.512 1.703 1.865 0.51  0.456 1.979
0.909 1.4415087342901394
0.677 1.075 0.946 1.25  0.691 1.414
0.434 1.538 0.135 0.947 0.065 0.628
0.831 1.524 1.074 0.397 1.992 1.811
3.707 1.3193614361383585
0.747 0.894 0.727 0.625 0.533 1.003
0.246 0.353 1.721 0.968 0.367 1.34
0.752 1.196 0.781 1.177 1.369 1.212
1.885 1.433329854403809
"""

# Steps, μ² at D = 10, h = 0.25, κ = σ = 1: not monotone.
WINDOW = [(200, 1.9695077370303606), (400, 1.8924824227941264)]
WINDOW += [(1000, 1.9713677151375852), (2000, 2.0945920259025694)]


def along_the_path(kappa, h, sigma, diameter):
    """Σ (ω_k(u_{k−1}) − u_k)²/σ_k² along the recursion (4) for u*, which ends in u_T = 0."""
    t, u, total = len(kappa), diameter, 0.0
    for k in range(t):
        moved = math.sqrt(kappa[k] * u * u + h[k])
        later = sum(sigma[j] ** 2 * math.prod(kappa[j + 1 :]) for j in range(k + 1, t))
        share = later / (later + sigma[k] ** 2 * math.prod(kappa[k + 1 :]))
        u = share * moved
        total += ((moved - u) / sigma[k]) ** 2
    assert u == 0.0
    return total


def test_theorem_3_4():
    lines = [list(map(float, line.split())) for line in MIXED.strip().splitlines()]
    for *columns, (diameter, squared) in zip(*[iter(lines)] * 4, strict=True):
        found = float(bravo.theorem_3_4(*columns, diameter))
        assert found == pytest.approx(squared, rel=1e-9)
        # Twelve operations a step, six steps.
        assert found == pytest.approx(along_the_path(*columns, diameter), rel=1e-13)
        higher = float(bravo.theorem_3_4(*columns, diameter, order=5.0))
        assert higher == pytest.approx(2.5 * squared, rel=1e-9)


@every(("steps", "squared"), WINDOW)
def test_theorem_3_4_over_long_runs(steps, squared):
    found = bravo.theorem_3_4([1.0] * steps, [0.25] * steps, [1.0] * steps, 10.0)
    assert float(found) == pytest.approx(squared, rel=1e-9)
    sum_form = bravo.corollary_3_7(diameter=10.0, h=0.25, step_noise_std=1.0, steps=steps)
    assert float(sum_form) == pytest.approx(squared, rel=1e-9)


ETA, T, D, SIGMA, ALPHA = 0.1, 40, 3.0, 0.7, 4.0
COMMON = {"diameter": D, "step_noise_std": SIGMA, "steps": T, "order": ALPHA}
P, M = 0.5, 1.5
DISSIPATIVE = {"offset": 0.3, "rate": 0.8, "smoothness": 1.2}


def row(name):
    """(κ, h, the row's bound, the losses, the previous bound) of Table 1."""
    if name == "convex Lipschitz":
        h = (2.0 * ETA * 1.1) ** 2
        return 1.0, h, bravo.corollary_3_7(h=h, **COMMON), Loss.lipschitz(1.1), None
    if name == "convex weakly smooth":
        h = 4.0 * (1.0 - P) / (1.0 + P) * (0.5 * ETA * M) ** (2.0 / (1.0 - P))
        return 1.0, h, bravo.corollary_3_7(h=h, **COMMON), Loss.weakly_smooth([(P, M)]), None
    if name == "strongly convex smooth":
        kappa = 1.0 - 2.0 * ETA * 0.4 + (ETA * 2.0) ** 2
        before = altschuler_talwar.contractive(kappa=kappa, **COMMON)
        loss = Loss.strongly_convex(0.4, 2.0)
        return kappa, 0.0, bravo.corollary_3_8(kappa=kappa, **COMMON), loss, before
    if name == "convex smooth":
        before = altschuler_talwar.proposition_2_10(**COMMON)
        return 1.0, 0.0, bravo.corollary_3_8(kappa=1.0, **COMMON), Loss.convex(2.0), before
    if name == "nonconvex smooth":
        kappa = (1.0 + ETA * 0.9) ** 2
        before = balle.iterated_lipschitz(kappa=kappa, **COMMON)
        return kappa, 0.0, bravo.corollary_3_8(kappa=kappa, **COMMON), Loss.nonconvex(0.9), before
    kappa = 1.0 - 2.0 * ETA * 0.8 + (ETA * 1.2) ** 2
    bound = bravo.corollary_3_9(step_size=ETA, **DISSIPATIVE, **COMMON)
    return kappa, 2.0 * ETA * 0.3, bound, Loss.dissipative(0.3, 0.8, 1.2), None


ROWS = ["convex Lipschitz", "convex weakly smooth", "strongly convex smooth", "convex smooth"]
ROWS += ["nonconvex smooth", "strongly dissipative smooth"]


@every("name", ROWS)
def test_table_1(name):
    """Each row is the closed form of Theorem 3.4, and at most the bound it replaces."""
    kappa, h, bound, _, before = row(name)
    closed = bravo.theorem_3_4([kappa] * T, [h] * T, [SIGMA] * T, D, order=ALPHA)
    # T = 40 steps of a dozen operations, all sums of positive terms.
    assert float(bound) == pytest.approx(float(closed), rel=40 * 12 * 2.0**-52)
    if before is not None:
        assert float(bound) <= float(before) * (1.0 + 1e-12)


@pytest.mark.parametrize("name", ROWS)
def test_pabi_is_at_most_table_1(name):
    _, _, bound, loss, _ = row(name)
    given = {
        "step_sensitivity": 0.0,
        "step_noise_std": SIGMA,
        "start": D,
        "diameter": D,
        "steps": T,
    }
    # Losses of known curvature contract by more than √κ; the rest have the same modulus, rounded up.
    mu = NoisyIteration(moduli=loss.modulus(ETA), **given).guarantee().mu
    assert 0.5 * ALPHA * mu**2 <= float(bound) * (1.0 + 1e-9)


def test_the_second_displays_are_larger():
    """ln(T·e) for the harmonic sum, and its like for dissipative potentials. At κ = 1 a corollary is smooth:
    κ^T and the mean of κ^k each move by less than T·|κ − 1|."""
    for steps in (1, 2, 7, 100):
        common = COMMON | {"steps": steps}
        rated = common | {"offset": 0.3, "smoothness": 1.0, "step_size": ETA}
        displays = [(bravo.corollary_3_7, common | {"h": h}) for h in (0.1, 2.0)]
        displays += [(bravo.corollary_3_9, rated | {"rate": x}) for x in (0.8, 0.0501, 0.01)]
        for corollary, given in displays:
            second = float(corollary(**given, logarithm=True))
            assert float(corollary(**given)) <= second * (1.0 + 1e-12)
        at_one = float(bravo.corollary_3_8(kappa=1.0, **common))
        for kappa in (1.0 - 1e-9, 1.0 + 1e-9):
            near = float(bravo.corollary_3_8(kappa=kappa, **common))
            assert near == pytest.approx(at_one, rel=2 * steps * 1e-9)


@every("kappa", [0.3, 0.9, 0.999, 1.0, 1.001, 1.2, 4.0])
@every("steps", [1, 2, 10, 300])
def test_previous_bounds_are_never_better(kappa, steps):
    """Altschuler and Talwar's for κ ≤ 1, Balle et al.'s for every κ; equal for one step."""
    given = {"diameter": 2.0, "kappa": kappa, "step_noise_std": 0.5, "steps": steps}
    own = float(bravo.corollary_3_8(**given))
    lipschitz = float(balle.iterated_lipschitz(**given))
    assert own <= lipschitz * (1.0 + 1e-12)
    if kappa <= 1.0:
        assert own <= float(altschuler_talwar.contractive(**given)) * (1.0 + 1e-12)
    if steps == 1:
        assert own == pytest.approx(lipschitz, rel=1e-12)
    if kappa > 1.0 and steps == 300:
        # "Diverges when T → ∞, while ours converges" to αD²(κ − 1)/(2σ²).
        limit = 4.0 / 0.25 * (kappa - 1.0) / (1.0 - kappa**-300)
        assert own == pytest.approx(limit, rel=1e-9)
        later = {**given, "steps": 30_000}
        assert float(balle.iterated_lipschitz(**later)) > 100.0 * lipschitz or lipschitz == math.inf


FIGURE = {"L": 1.0, "n": 1000, "diameter": 1.0, "constant": 2.0}


def steps_of_figure_1(step_size, exponent):
    """2T̄ + V in multiple precision, from the moduli: T̄ = ⌈Dn/(4ηL)⌉, V = n²/(16L²)·h·ln(T̄e)/η²."""
    eta, p = mpmath.mpf(step_size), mpmath.mpf(exponent)
    t = int(mpmath.ceil(1000 / (4 * eta) * (1 - mpmath.mpf(10) ** -14)))
    if p == 1:
        return 2 * t
    h = 4 * (1 - p) / (1 + p) * (eta * 2 / 2) ** (2 / (1 - p))
    return 2 * t + mpmath.mpf(1000) ** 2 / 16 * h / eta**2 * mpmath.log(t * mpmath.e)


def test_figure_1():
    """The curves of Figure 1: n = 1000, L = 1, M = 2, D = 1, step sizes from 1/n up.

    They fall with p; for p > 0.7 "there are no significant differences" to p = 1; at p = 0 the cap grows as
    n² and never is of use.
    """
    for step_size in np.geomspace(1e-3, 1000**-0.5, 7):
        curves = {
            p: float(bravo.remark_5_3_steps(step_size=step_size, exponent=p, **FIGURE))
            for p in (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 1.0)
        }
        for p, value in curves.items():
            assert value == pytest.approx(float(steps_of_figure_1(step_size, p)), rel=1e-9)
        values = list(curves.values())
        assert values == sorted(values, reverse=True)
        assert curves[0.7] <= 1.01 * curves[1.0]
        assert curves[0.8] <= 1.0001 * curves[1.0]
        assert curves[0.0] > 1000**2
    # At p = 1 the cap is that of Altschuler and Talwar; at p = 0 it scales as n².
    own = float(bravo.remark_5_3_steps(step_size=0.01, exponent=0.0, **{**FIGURE, "n": 10**4}))
    assert own > 100 * float(bravo.remark_5_3_steps(step_size=0.01, exponent=0.0, **FIGURE))


def test_remark_5_3_rounds_theorem_5_2_up():
    given = {"L": 1.0, "b": 20, "n": 1000, "diameter": 1.0, "step_size": 0.02, "exponent": 0.5}
    given |= {"constant": 2.0, "noise_std": 2.0, "steps": 10**6, "order": 3.0}
    fine, coarse = float(bravo.theorem_5_2(**given)), float(bravo.remark_5_3(**given))
    assert fine <= coarse * (1.0 + 1e-12)
    smooth = {k: v for k, v in given.items() if k not in ("exponent", "constant")}
    capped = {**given, "exponent": 1.0, "constant": 2.0}
    assert float(bravo.remark_5_3(**capped)) == float(altschuler_talwar.theorem_3_1(**smooth))


def test_the_order_of_the_sampled_gaussian():
    """α* is the largest order at which both conditions of Lemma A.18 hold, and there the divergence of
    one sampled Gaussian, by quadrature, is at most 2αq²/σ²."""
    q, sigma = 0.02, 5.0
    top = bravo.sampled_gaussian_order(q, sigma)
    assert top > 2.0
    x = np.linspace(-80.0, 80.0, 400_001)
    log_base = -0.5 * (x / sigma) ** 2 - math.log(sigma * math.sqrt(2.0 * math.pi))
    log_ratio = np.log1p(q * np.expm1((x - 0.5) / sigma**2))  # of the mixture to N(0, σ²)
    for order in (1.5, 0.5 * (1.0 + top), top):
        moment = trapezoid(np.exp(log_base + (1.0 - order) * log_ratio), x)
        assert math.log(moment) / (order - 1.0) <= 2.0 * order * q * q / sigma**2


@every("exponent", [0.0, 0.3, 0.7, 1.0])
@every("constant", [0.5, 2.0, 9.0])
@every("diameter", [2.0, 50.0])
def test_lemma_4_1_follows_from_corollary_3_7(exponent, constant, diameter):
    """At the largest step size of (10) the KL divergence after ⌈D²/η⌉ steps is at most 1/2, as Pinsker's
    inequality wants it for a total variation of 1/2. This is what was recovered from the scan."""
    theta = bravo.step_size_bound(diameter=diameter, exponent=exponent, constant=constant)
    for shrink in (1.0, 10.0, 1e4):
        eta = 1.0 / (theta * shrink)
        if eta > diameter**2:
            continue
        steps = math.ceil(diameter**2 / eta)
        p = exponent
        h = 0.0
        if p < 1.0:
            h = 4.0 * (1.0 - p) / (1.0 + p) * (0.5 * eta * constant) ** (2.0 / (1.0 - p))
        kl = diameter**2 / (4.0 * eta * steps) + h * (math.log(steps) + 1.0) / (4.0 * eta)
        assert kl <= 0.5


def test_theorem_5_4_ends_at_its_order():
    given = {"L": 2.0, "b": 10, "n": 1000, "diameter": 1.0, "noise_std": 10.0, "step_size": 0.1}
    given |= {"smoothness": 1.0, "steps": 10**6}
    most = (10 * 10.0 / 2.0) ** 2 / 16.0 * math.log(100.0)
    assert math.isfinite(float(bravo.theorem_5_4(order=0.999 * most, **given)))
    with pytest.raises(NotApplicable, match="order"):
        bravo.theorem_5_4(order=1.001 * most, **given)


def test_against_asoodeh_and_diaz():
    """Their (22) and (24): as η → 0 the former grows as 1/η, the latter as 1/η², "more gracefully"; with
    little noise for a long step only (24) can be stated."""
    given = {"L": 1.0, "b": 10, "n": 1000, "diameter": 1.0, "noise_std": 5.0, "delta": 1e-5}
    for eta in (1e-2, 1e-3, 1e-4, 1e-5):
        own = float(bravo.equation_22(step_size=eta, smoothness=1.0, **given))
        other = float(asoodeh_diaz.equation_24(step_size=eta, **given))
        assert own < other
        # Leading terms A/σ² with A = (52L²/n² + 4D²β)/η, and D²/(2η²σ²). The rest is smaller by the
        # factors 2σ√(ln(1/δ)/A) + η/2, and (1 + 2η)² − 1 + 2ση(1 + 2η)√(2 ln(1 + b/(nδ))).
        size = (52e-6 + 4.0) / eta
        rest = 10.0 * math.sqrt(math.log(1e5) / size) + 0.5 * eta
        assert 1.0 <= own / (size / 25.0) <= 1.0 + 1.01 * rest
        tail = math.sqrt(2.0 * math.log(1001.0))
        rest = 4.0 * eta + 4.0 * eta**2 + 10.0 * eta * (1.0 + 2.0 * eta) * tail
        assert 1.0 <= other / (0.02 / eta**2) <= 1.0 + 1.01 * rest
    # (24) has no restriction on the noise; (22) needs σ large enough for its order.
    tiny = {**given, "delta": 1e-300, "step_size": 10.0, "noise_std": 1.0}
    with pytest.raises(NotApplicable, match="order"):
        bravo.equation_22(smoothness=1e-6, **tiny)
    assert math.isfinite(float(asoodeh_diaz.equation_24(**tiny)))

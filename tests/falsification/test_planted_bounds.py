"""The search finds what is wrong with bounds that are known to be wrong, and nothing in the right ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom

from pabi import Loss
from support.falsification.adversary import Knob, log_ratio, search
from support.falsification.affine_maps import exact_mu
from support.falsification.random_batches import (
    Constant,
    Line,
)
from support.falsification.walks import Training

SLACK = 1e-9  # of logarithms of ratios: rounding, and what the quadratures leave


# Kong and Ribero: cyclic batches of one clipped record, f_i = (h/2)x², the record's gradient clipped ±C.


def theta(slope: float, steps: int) -> float:
    """Their (6)."""
    powers = slope ** (2.0 * np.arange(steps))
    return float(powers[-1] / powers.sum()) if steps else 0.0


def theorem_4_5(point, order: float) -> float:
    """Their (22), M = b = σ = 1, with 1/0 read as 0, as θ(0) = 0 wants it."""
    length, epochs, rest = int(point["length"]), int(point["epochs"]), rest_of(point)
    size = point["shift"] / 2.0  # λC
    return 4.0 * order * size**2 * ((1.0 / rest if rest else 0.0) + epochs / length)


def corrected(point, order: float) -> float:
    """(uses − 1)·θ(l) + θ(steps from the last use, inclusive) with what one use costs, 2α(λC)²; in one
    dimension clipped convex steps do not expand, L = 1."""
    length, used = int(point["length"]), uses(point)
    t = steps_of(point)
    last = theta(1.0, t - used[-1])
    return 2.0 * order * (point["shift"] / 2.0) ** 2 * ((len(used) - 1) * theta(1.0, length) + last)


def rest_of(point) -> int:
    """Steps after the last whole epoch."""
    return round(point["rest"] * (int(point["length"]) - 1))


def steps_of(point) -> int:
    return int(point["length"]) * int(point["epochs"]) + rest_of(point)


def uses(point) -> np.ndarray:
    """Steps at which the record is used; `after` of an epoch follows the last one."""
    length, t = int(point["length"]), steps_of(point)
    last = t - 1 - round(point["after"] * (length - 1))
    return np.arange(last % length, t, length)


def cyclic_mu(point) -> float:
    """While no other record's gradient is clipped: slope 1 where the record is used, 1 − λh elsewhere."""
    t, used = steps_of(point), uses(point)
    a, d = np.full(t, 1.0 - point["curvature"] * point["step"]), np.zeros(t)
    a[used], d[used] = 1.0, point["shift"]
    return float(exact_mu(a, d, np.ones(t)))


CYCLIC = {
    "length": Knob(2, 40, "integer"),
    "epochs": Knob(1, 3, "integer"),
    "rest": Knob(0.0, 1.0),
    "after": Knob(0.0, 1.0),
    "curvature": Knob(0.0, 1.0),
    "step": Knob(0.01, 0.5),  # λ ≤ 1/(2M)
    "shift": Knob(4.0, 6.0),  # 2λC/σ
}


def cyclic_score(claim, order: float = 2.0):
    def score(point) -> float:
        return log_ratio(order * cyclic_mu(point) ** 2 / 2.0, claim(point, order))

    return score


def clipped_training(point) -> Training:
    """The same with every gradient clipped, as a run: M = 1, C = shift/(2λ)."""
    clip = point["shift"] / (2.0 * point["step"])
    length = int(point["length"])
    batches = [(Line(point["curvature"], 0.0, clip),) for _ in range(length)]
    position, t = int(uses(point)[0]), steps_of(point)
    batches[position] = (Constant(clip),)
    return Training(
        tuple(batches),
        position,
        Constant(-clip),
        (point["step"],) * t,
        (1.0 / point["step"],) * t,
        Loss.convex(1.0, glm=True),
        clip,
    )


def test_kong_and_ribero_theorem_4_5_is_refuted():
    found = search(cyclic_score(theorem_4_5), CYCLIC, seed=1, instances=1000)
    assert found.score > math.log(5.0)
    # The winner again, with the clipping of all gradients taken into account.
    truth = clipped_training(found.point).walk.renyi(1.5)
    assert truth > 4.0 * theorem_4_5(found.point, 1.5)


def test_the_instance_without_tails():
    """ℓ = 50, λ = 1/(2M), C = 50σ/M: 1071 for a printed 100."""
    point = {"length": 50, "epochs": 1, "rest": 0.0, "after": 0.0}
    point |= {"curvature": 1.0, "step": 0.5, "shift": 50.0}
    assert cyclic_mu(point) ** 2 == pytest.approx(1071.4286, rel=1e-6)
    assert theorem_4_5(point, 2.0) == pytest.approx(100.0, rel=1e-12)


def test_theorem_4_5_counted_from_the_use_is_not():
    """The corrected count, and the accountant, on the family that refutes the printed one."""
    found = search(cyclic_score(corrected), CYCLIC, seed=1, instances=1000)
    assert -0.1 < found.score <= SLACK

    def proven(point, order):
        with np.errstate(all="ignore"):
            return order * clipped_training(point).run.guarantee(1e-3).mu ** 2 / 2.0

    found = search(cyclic_score(proven), CYCLIC, seed=1, instances=100)
    assert -0.5 < found.score <= SLACK


COROLLARY = {
    "length": Knob(2, 300, "integer"),
    "epochs": Knob(1, 3, "integer"),
    "curvature": Knob(0.0, 1.0),
    "weak": Knob(1e-3, 1.0, "log"),
    "order": Knob(1.1, 4.0),
}


def corollary_c_2(point) -> tuple[float, dict]:
    """(log of the exact divergence over a promised ε = 1/2, the instance), M = C = b = 1."""
    m, epochs, order, epsilon = point["weak"], int(point["epochs"]), point["order"], 0.5
    step = 1.0 / (2.0 * (1.0 + m))
    if point["length"] < math.log(2.0) / math.log1p(m * step):
        return -math.inf, {}
    sigma = step / 2.0 * math.sqrt((1.0 + 4.0 * m / (1.0 + m) * epochs) / (order * epsilon))
    instance = point | {"rest": 0.0, "after": 0.0, "step": step}
    instance["shift"] = 2.0 * step / sigma
    return log_ratio(order * cyclic_mu(instance) ** 2 / 2.0, epsilon), instance


def test_kong_and_ribero_corollary_c_2_is_refuted():
    given = {"instances": 300, "enough": math.log(10.0)}
    found = search(lambda point: corollary_c_2(point)[0], COROLLARY, seed=2, **given)
    assert found.score > math.log(10.0)
    # Gradients of curvature at most one stay inside the clip where it matters: M = 1, ε = 10, once.
    once = {"length": 141, "epochs": 1, "curvature": 1.0, "weak": 0.01, "order": 2.0}
    assert math.exp(corollary_c_2(once)[0]) == pytest.approx(131.4 / 10.0, rel=1e-3)
    # A short run by quadrature, clipping of all gradients included: five times what is promised.
    short = {"length": 30, "epochs": 1, "curvature": 1.0, "weak": 0.05, "order": 1.5}
    score, instance = corollary_c_2(short)
    assert score > math.log(6.0)
    assert clipped_training(instance).walk.renyi(1.5) > 5.0 * 0.5


# Bravo, Flores-Mella, Guzmán, Thm 5.4: linear losses, one record of n drawn at every step.

DRAWN = {
    "n": Knob(11, 60, "integer"),
    "step": Knob(1e-2, 0.5, "log"),
    "noise": Knob(1.0, 3.0),  # over the least allowed, 2√10
    "steps": Knob(1e2, 2e4, "log"),
    "order": Knob(0.0, 1.0),
    "smoothness": Knob(1e-10, 10.0, "log"),
}


def drawn_instance(point) -> tuple[float, float, int, float, float]:
    """(σ, α, T, standard deviation of the noise in X_T, D): walls 15 deviations beyond where anyone goes."""
    sigma = point["noise"] * 2.0 * math.sqrt(10.0)
    highest = sigma**2 / 16.0 * math.log(point["n"])
    order = 1.0 + (highest - 1.0) * max(point["order"], 1e-3)
    t = round(point["steps"])
    std = point["step"] * sigma * math.sqrt(t)
    drift = point["step"] * (t / point["n"] + 15.0 * math.sqrt(t / point["n"]))
    return sigma, order, t, std, 2.0 * (drift + 15.0 * std)


def drawn_renyi(point) -> float:
    """Of X_T = ∓ηK + noise, K binomial: an integral of positive terms, on 15 deviations about each mean."""
    _, order, t, std, _ = drawn_instance(point)
    n, eta = int(point["n"]), point["step"]
    low, high = binom.ppf([1e-14, 1.0 - 1e-14], t, 1.0 / n)
    k = np.unique(np.linspace(low, high, 200).round())
    edges = np.append(k[1:] - 1, np.inf)
    weight = np.diff(np.append(0.0, binom.cdf(edges, t, 1.0 / n)))  # few atoms, each below its own
    centre = eta * t / n
    grid = np.linspace(-2 * order * centre - 9 * std, centre + 9 * std, 1500)

    def log_density(side: float) -> np.ndarray:
        with np.errstate(divide="ignore"):
            terms = np.log(weight) - 0.5 * ((grid[:, None] - side * eta * k) / std) ** 2
        return logsumexp(terms, axis=1) - math.log(std * math.sqrt(2 * math.pi))

    p, q = log_density(-1.0), log_density(1.0)
    spacing = math.log(grid[1] - grid[0])
    return float(logsumexp(order * p + (1.0 - order) * q + spacing)) / (order - 1.0)


def theorem_5_4(point, window: float) -> float:
    """(α/σ²)(52L²T̄/n² + 4D²β/η + 2D²β²), L = b = 1, for T > T̄ = ⌈window⌉."""
    sigma, order, t, _, diameter = drawn_instance(point)
    last, beta, eta = math.ceil(window), point["smoothness"], point["step"]
    if t <= last:
        return math.inf
    kept = 52.0 * last / point["n"] ** 2
    return order / sigma**2 * (kept + 4.0 * diameter**2 * beta / eta + 2.0 * (diameter * beta) ** 2)


def test_the_short_window_of_bravo_flores_mella_guzman_is_refuted():
    """T̄ read as ⌈1/η⌉."""

    def score(point) -> float:
        claim = theorem_5_4(point, 1.0 / point["step"])
        return log_ratio(drawn_renyi(point), claim) if math.isfinite(claim) else -math.inf

    found = search(score, DRAWN, seed=5, instances=400, enough=math.log(10.0))
    assert found.score > math.log(10.0)
    known = {"n": 10, "step": 0.05, "noise": 6.39 / 2 / math.sqrt(10), "steps": 20000.0}
    _, highest, *_ = drawn_instance(known | {"order": 1.0})
    known |= {"order": 1.0 / (highest - 1.0), "smoothness": 1e-10}
    assert drawn_renyi(known) >= 19.5
    kept = theorem_5_4(known, 20.0)
    assert kept < 0.52


def test_the_long_window_is_not():
    """T̄ = ⌈1/(ηβ)⌉."""

    def score(point) -> float:
        claim = theorem_5_4(point, 1.0 / (point["step"] * point["smoothness"]))
        return log_ratio(drawn_renyi(point), claim) if math.isfinite(claim) else -math.inf

    knobs = DRAWN | {"smoothness": Knob(1e-4, 10.0, "log")}
    assert search(score, knobs, seed=5, instances=150).score <= SLACK

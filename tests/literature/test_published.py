"""What is published, how far each bound is to be trusted, and that nothing else rests on it."""

import inspect
import itertools
import math

import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr

import pabi
from pabi import NotApplicable, literature
from pabi.literature import (
    asoodeh_diaz,
    bok,
    bravo,
    chien_wang_chen_li,
    compare,
    dong,
    feldman,
    kong_ribero,
    mcsherry_talwar,
    ye_shokri,
)
from pabi.literature import langevin_universality as universality

BOUNDS = {
    bravo: {
        "sound": "theorem_3_4 corollary_3_7 corollary_3_8 corollary_3_9 lemma_4_1 theorem_4_2",
        "unverified": "theorem_5_2 remark_5_3 theorem_5_4 equation_22",
    },
    bok: {
        "sound": "theorem_4_1 theorem_4_2 theorem_4_3 theorem_4_4 theorem_4_5 theorem_4_6"
        " theorem_4_8 theorem_4_9 theorem_4_10 theorem_c_16 theorem_c_17 proposition_5_1"
        " corollary_5_2 corollary_5_4",
        "refuted": "tables_10_to_12",
    },
    kong_ribero: {
        "sound": "proposition_3_4_a theorem_4_3",
        "refuted": "proposition_3_4_b theorem_4_5 equation_22 corollary_c_2",
        "unverified": "theorem_4_4 corollary_c_3",
    },
    universality: {
        "sound": "lemma_c_1 lemma_i_2 equation_33 theorem_f_1 equation_42",
        "unverified": "lemma_i_1",
        "refuted": "theorem_f_2 lemma_f_3",
    },
    literature.altschuler_talwar: {
        "sound": "contractive proposition_2_10",
        "unverified": "theorem_3_1",
    },
    asoodeh_diaz: {"sound": "theorem_2 equation_24"},
    literature.chien_li: {"sound": "theorem_3_1"},
    literature.chien_wang_chen_li: {"sound": "unlearning"},
    literature.balle: {"sound": "iterated_lipschitz"},
    dong: {"sound": "corollary_3_3"},
    feldman: {"sound": "theorem_22 theorem_23"},
    mcsherry_talwar: {"sound": "exponential_mechanism"},
    ye_shokri: {"sound": "theorem_3_3 theorem_d_6"},
}
STATUS = {
    module: {name: status for status, names in rows.items() for name in names.split()}
    for module, rows in BOUNDS.items()
}


def published_in(module):
    return {
        name
        for name, value in vars(module).items()
        if hasattr(value, "status") and value.__module__ == module.__name__
    }


def test_the_list_is_complete():
    for module, names in STATUS.items():
        assert published_in(module) == set(names)
    modules = {v for v in vars(literature).values() if inspect.ismodule(v) and published_in(v)}
    assert modules == set(STATUS)


def test_status_source_and_note():
    """What is not sound says why, in the note and in the docstring."""
    for module, names in STATUS.items():
        for name, status in names.items():
            bound = getattr(module, name)
            assert bound.status == status, name
            assert inspect.isfunction(bound), name
            assert bound.source, name
            assert bound.__doc__, name
            assert bool(bound.note) == (status != "sound"), name
            if status != "sound":
                assert status in bound.__doc__.lower() or "see" in bound.__doc__.lower(), name


def test_what_a_bound_returns():
    found = kong_ribero.theorem_4_3(
        clip_norm=1.0, step_size=0.5, step_noise_std=2.0, steps=3, order=4.0
    )
    # 8·4·3·(0.5·1/2)² by hand.
    assert found.value == 6.0
    assert float(found) == 6.0
    assert (found.kind, found.status) == ("rdp", "sound")
    assert found.source == kong_ribero.theorem_4_3.source
    with pytest.raises(AttributeError):
        found.value = 0.0
    curve = bok.theorem_4_8(L=1.0, b=1, n=10, noise_std=2.0, steps=3)
    assert curve.kind == "tradeoff"
    with pytest.raises(TypeError):
        float(curve)


def test_hypotheses_are_checked():
    """A theorem asked about parameters it does not cover refuses, naming the hypothesis."""
    unit = {"L": 1.0, "n": 1, "noise_std": 1.0, "steps": 8}
    cases = [
        (bok.theorem_4_3, {**unit, "step_size": 1.0, "diameter": 9.0}),
        (bok.theorem_4_2, {**unit, "slope": 1.0}),
        (kong_ribero.proposition_3_4_b, {"m": 0.5, "M": 1.0, "step_size": 0.4}),
        (bravo.lemma_4_1, {"diameter": 1.0, "step_size": 0.6, "exponent": 1.0, "constant": 4.0}),
        (feldman.theorem_23, {"L": 1.0, "n": 3, "position": 4, "noise_std": 1.0}),
    ]  # fmt: skip
    for bound, given in cases:
        with pytest.raises(NotApplicable, match="needs"):
            bound(**given)


def test_a_few_values_by_hand():
    assert float(dong.corollary_3_3(mus=[3.0, 4.0])) == 5.0
    assert float(feldman.theorem_23(L=1.0, n=4, position=4, noise_std=2.0, order=2.0)) == 1.0
    moved = {"sensitivities": [2.0, 0.0, 0.0, 0.0], "payments": [0.5] * 4, "step_noise_std": 2.0}
    # The equal payments behind Theorem 23: 2ηL = 2 paid over four steps, ησ = 2.
    equal = feldman.theorem_23(L=1.0, n=4, position=1, noise_std=2.0)
    assert float(feldman.theorem_22(**moved)) == float(equal)
    assert float(mcsherry_talwar.exponential_mechanism(L=3.0, diameter=0.5)) == 3.0
    path = universality.lemma_c_1(gradient_gap=2.0, time=3.0, inverse_temperature=0.5)
    assert float(path) == pytest.approx(1.5)
    assert float(bok.corollary_5_4(L=1.0, diameter=4.0)) == 4.0
    assert float(bok.corollary_5_2(L=3.0, strong_convexity=4.0)) == 1.5
    assert kong_ribero.theta(1.0, 5) == pytest.approx(0.2)
    assert kong_ribero.theta(2.0, 3) == pytest.approx(16.0 / 21.0)
    # Where optimal shifts are cheaper.
    given = {"step_size": 1.0, "diameter": 5.0, "batches_per_epoch": 10, "epochs": 40}
    assert float(bok.theorem_4_6(L=1.0, b=1, noise_std=1.0, **given)) == pytest.approx(
        math.sqrt(3.0), rel=1e-15
    )


def test_langevin_chain_is_the_limit_of_gradient_descent():
    """Proposition 5.1 is Theorem 4.2 at n = 1, σ = √(2/η), t → ∞."""
    m, eta, gap = 0.7, 0.3, 1.3
    given = {"noise_std": math.sqrt(2.0 / eta), "slope": 1.0 - eta * m, "steps": 10_000}
    limit = float(bok.proposition_5_1(L=gap, strong_convexity=m, step_size=eta))
    assert float(bok.theorem_4_2(L=gap, n=1, **given)) == pytest.approx(limit, rel=1e-12)


def test_crossover_of_the_exponential_mechanism():
    """The plain (2LD, 0) guarantee and Corollary 5.4 cross at LD = 0.676… (Bok, Su, Altschuler, §D.4)."""

    def gap(x):
        mu = float(bok.corollary_5_4(L=x, diameter=1.0))
        epsilon = float(mcsherry_talwar.exponential_mechanism(L=x, diameter=1.0))
        return math.log((1.0 - ndtr(-0.5 * mu)) / ndtr(-0.5 * mu)) - epsilon

    assert brentq(gap, 0.1, 2.0, xtol=1e-14) == pytest.approx(0.6763896796400565, abs=1e-12)


def test_lemma_i_2_is_loose_by_a_factor_between_1_66_and_2():
    """Against the exact divergence of quadratics, α/2·(Δ²β/m)·tanh(βmT/2)."""
    m, beta, gap, order, ratios = 0.5, 2.0, 0.3, 3.0, []
    given = {"m": m, "inverse_temperature": beta, "gradient_gap": gap, "order": order}
    for exponent in (1e-6, 0.1, 0.5, 0.9, 1.0, 1.1, 1.5, 2.0, 5.0, 50.0):
        claimed = universality.lemma_i_2(**given, time=2.0 * exponent / (beta * m))
        ratios.append(float(claimed) / (0.5 * order * gap**2 * beta / m * math.tanh(exponent)))
    assert all(1.65 < r <= 2.0 + 1e-9 for r in ratios)
    assert min(ratios) == pytest.approx(1.66, abs=0.005)


def test_universal_constants_of_the_lower_bound():
    """The defaults of Theorem C.16 meet the two conditions of its proof, for all x ≥ 1/c₀."""
    given = inspect.signature(bok.theorem_c_16).parameters
    c_0, c_1 = given["c_0"].default, given["c_1"].default
    assert 0.0 < c_0 < 0.2
    assert c_1 > math.sqrt(c_0)
    half = 0.5 * math.erf(0.5 / math.sqrt(2.0))  # ½ − Φ(−½)
    # Divided by e^(−c₁²x), both exponentials on the right fall in x, so x = 1/c₀ is the worst.
    x = 1.0 / c_0
    assert c_1**2 < 0.01 / 5.6
    assert half >= math.exp((c_1**2 - 0.9 / 5.6) * x) + math.exp((c_1**2 - 0.01 / 5.6) * x)


def test_the_lower_bounds_lie_below_what_pabi_proves():
    c, period, epochs = 0.9, 5, 7
    full = {"L": 1.0, "noise_std": 1.0, "slope": c}
    cyclic = {**full, "b": 1, "batches_per_epoch": period, "epochs": epochs}
    lower = float(bok.theorem_c_17(**cyclic))
    # Theorem C.17 by its own construction: the mean difference over the deviation, summed step by step.
    mean = math.fsum(c ** (period * k) for k in range(epochs))
    deviation = math.sqrt(math.fsum(c ** (2 * k) for k in range(period * epochs)))
    assert lower == pytest.approx(mean / deviation, rel=1e-12)
    assert lower <= float(bok.theorem_4_5(**cyclic))
    exact = float(bok.theorem_4_2(n=1, steps=9, **full))
    one = bok.theorem_c_17(b=1, batches_per_epoch=1, epochs=9, **full)
    assert float(one) == pytest.approx(exact, rel=1e-12)


def test_asoodeh_diaz_is_the_fixed_point_of_its_recursion():
    """δ = θ·(p + (1 − p)·δ) with θ = Φ(r/2 − ε/r), and (24) is never below it."""
    given = {"L": 1.0, "b": 5, "n": 100, "diameter": 0.2, "step_size": 0.1, "noise_std": 3.0}
    r = (0.2 / 0.1 + 2.0) / 3.0
    for delta in (1e-3, 1e-6, 1e-10):
        epsilon = float(asoodeh_diaz.theorem_2(delta=delta, **given))
        theta = 0.5 * math.erfc((epsilon / r - 0.5 * r) / math.sqrt(2.0))
        assert theta * (0.05 + 0.95 * delta) == pytest.approx(delta, rel=1e-9)
        assert float(asoodeh_diaz.equation_24(delta=delta, **given)) > epsilon


def test_the_divergence_of_full_batches_exceeds_the_exact_one():
    """Quadratic losses attain Theorem 4.2 of Bok, Su, Altschuler, so that any sound bound is above it."""
    for steps, shrink in itertools.product([1, 10, 160, 10_000], [0.001, 0.05, 0.5, 0.99]):
        told = ye_shokri.theorem_d_6(
            L=1.0, n=10, noise_std=1.0, strong_convexity=shrink, step_size=1.0, steps=steps
        )
        mu = bok.theorem_4_2(L=1.0, n=10, noise_std=1.0, slope=1.0 - shrink, steps=steps)
        assert float(told) >= float(mu) ** 2, (steps, shrink)  # of order 2
        if steps == 10_000 and shrink == 0.05:
            assert float(told) == pytest.approx(
                2.0 * 0.01 * 39.0
            )  # (2 − ηm)/(ηm) = 39, all settled


# Forgetting: against the numbers of its authors' code.


RECORDS, LAM = 11264, 0.011264
ETA = 1.0 / (0.25 + LAM)
NOISE = math.sqrt(2.0 * ETA) * 0.03 / ETA
LOSS = pabi.Loss.strongly_convex(LAM, 0.25 + LAM)
GIVEN = {"epochs": 1000, "step_size": ETA, "noise_std": NOISE, "gradient_sensitivity": 2.0}
RUN = pabi.NoisySGD(LOSS, RECORDS, pabi.FullBatch(), **GIVEN)


def forgetting(epochs, order=2.0, **changes):
    terms = {"step_size": ETA, "gradient_norm": 1.0, "strong_convexity": LAM, "noise": 0.03}
    terms |= {"n": RECORDS, "b": RECORDS} | changes
    return chien_wang_chen_li.unlearning(**terms, epochs=epochs, order=order)


@pytest.mark.parametrize(
    ("epochs", "epsilon"),
    [(1, 1.1431298904662504), (5, 0.9539045241383134), (20, 0.48670925940660015)],
)
def test_the_numbers_of_their_code(epochs, epsilon):
    """It takes the least of the divergence and ln(n)/(α − 1) over orders, to 1e-8 of the order."""

    def at(order):
        return float(forgetting(epochs, order)) + math.log(RECORDS) / (order - 1.0)

    least = minimize_scalar(at, bounds=(2.0, 100_000.0), method="bounded").fun
    assert least == pytest.approx(epsilon, rel=1e-7)


def test_our_bound_on_forgetting_is_less_and_theirs_is_sound():
    for batches in [pabi.FullBatch(), pabi.Cyclic(512)]:
        from dataclasses import replace

        run = replace(RUN, batches=batches, epochs=20)
        rows = compare(pabi.Unlearning(run, [(2 * run.steps_per_epoch, 1)]), 1.0 / RECORDS)
        theirs = rows["chien_wang_chen_li.unlearning"]
        assert theirs.status == "sound", batches
        assert rows["pabi"].epsilon < theirs.epsilon, batches


def test_what_the_bound_on_forgetting_does_not_cover():
    with pytest.raises(NotApplicable, match="contract"):
        forgetting(1, strong_convexity=0.0)
    with pytest.raises(NotApplicable, match="an epoch"):
        forgetting(0)
    for unlearning, reason in (
        (pabi.Unlearning(RUN, [(1, 2)]), "one record"),
        (pabi.Unlearning(RUN, [(1, 1)], step_size=0.1), "constant"),
    ):
        row = compare(unlearning, 1e-5)["chien_wang_chen_li.unlearning"]
        assert not row.applies
        assert reason in row.note

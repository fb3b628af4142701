"""Releases of noisy numbers (second moments, statistics of columns, an accuracy): costs in exact arithmetic,
certificates that are accepted, and refused when altered."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import pabi
from support.certificates import accepted, all_refused, forged, refused
from support.every_case import every

DELTA = 1e-3
ADJACENCIES = ("replace_one", "zero_out")
OTHER = dict(zip(ADJACENCIES, ADJACENCIES[::-1], strict=True))
MOMENTS = [
    {"adjacency": adjacency, "diagonal": diagonal, **noise}
    for adjacency, diagonal, noise in itertools.product(
        ADJACENCIES, (False, True), ({"noise_std": 9.0}, {"noise_multiplier": 4.1})
    )
]
KINDS = (
    {"statistic": "counts", "questions": 9},
    {"statistic": "moments"},
    {"statistic": "levels"},
    {"statistic": "levels", "threshold": 4.5},
)
COLUMNS = [{**kind, "adjacency": adjacency} for kind in KINDS for adjacency in ADJACENCIES]


def moments_of(case, **changes):
    fields = {"n": 100, "dimension": 5, "feature_norm": 1.3, **case, **changes}
    return pabi.NoisySecondMoments(**fields).guarantee(DELTA)


def columns_of(case, **changes):
    fields = {"n": 100, "columns": 5, "noise_std": 9.0, **case, **changes}
    return pabi.NoisyColumnStatistics(**fields).guarantee(DELTA)


def accuracy(**changes):
    return pabi.NoisyAccuracy(**{"n": 300, "noise_std": 0.01} | changes)


def payload_of(guarantee):
    return guarantee.certificate.payload


def fine(guarantee, edits):
    return pabi.verify(forged(payload_of(guarantee), edits)).ok


EVERY = [
    *(moments_of(case) for case in MOMENTS),
    *(columns_of(case) for case in COLUMNS),
    *(accuracy(adjacency=adjacency).guarantee(DELTA) for adjacency in ADJACENCIES),
]


@every("guarantee", EVERY)
def test_a_little_less_than_is_proven_is_refused(guarantee):
    payload, other = payload_of(guarantee), OTHER[guarantee.adjacency]
    noise = "noise_std" if payload["run"].get("noise_std") else "noise_multiplier"
    for edit in (f"run.{noise} *= ", "claim *= "):
        refused(forged(payload, f"{edit}0.999999999999"))
        refused(forged(payload, f"{edit}0.5"))
    assert fine(guarantee, f"run.{noise} *= 1.000000000001")
    assert pabi.verify(forged(payload, "run.n += 1")).ok
    refused(forged(payload, "run.noise_std = 9.0; run.noise_multiplier = 4.1"))
    for place in ("run.adjacency", "adjacency"):
        refused(forged(payload, f'{place} = "{other}"'))
    refused(guarantee.to_dict(certificate=True) | {"adjacency": other})


@every("case", MOMENTS)
def test_of_second_moments(case):
    guarantee = moments_of(case)
    # In units of R² the noise grows with the records, and the claim stays true.
    for factor in (2.0, 1.0 + 1e-12):
        assert fine(guarantee, f"run.feature_norm *= {factor}") == ("noise_multiplier" in case)
    # Both together are another certificate, true where it asks for less.
    other = OTHER[case["adjacency"]]
    both = f'run.adjacency = "{other}"; adjacency = "{other}"'
    assert fine(guarantee, both) == (other == "zero_out")
    assert fine(guarantee, "claim *= 1.000000000001")
    data = guarantee.to_dict(certificate=True)
    # Half of R proves the claim all the more, but of other records than are stated; the same μ is proven of
    # the matrix and of its diagonal, but what is stated to be released is not the same.
    refused(forged(data, "certificate.run.feature_norm *= 0.5"))
    diagonal = "false" if case["diagonal"] else "true"
    refused(forged(data, f"certificate.run.diagonal = {diagonal}"), "assumptions")


@every("case", COLUMNS)
def test_of_statistics_of_columns(case):
    guarantee = columns_of(case)
    assert not fine(guarantee, "run.columns = 6")
    assert fine(guarantee, "run.columns = 4")


@every("case", COLUMNS[-2:])
def test_of_a_threshold(case):
    guarantee = columns_of(case)
    for threshold in (0.0, 4.0, 4.5 - 1e-9):  # a lower one fails more often
        refused(forged(payload_of(guarantee), f"run.threshold = {threshold}"), "failure")
    assert fine(guarantee, "run.threshold = 4.6")
    # Without a threshold nothing fails, but another release is stated.
    data = guarantee.to_dict(certificate=True)
    refused(forged(data, "del certificate.run.threshold"), "assumptions")
    for less in (0.0, 1.0 - 1e-12):
        refused(forged(payload_of(guarantee), f"claim.tradeoff.failure *= {less}"))


def test_moments_do_not_pass_for_counts():
    """Under zero_out a count of each column moves by as much; what is stated to be released is another."""
    data = columns_of(COLUMNS[3]).to_dict(certificate=True)
    refused(forged(data, 'certificate.run.statistic = "counts"'))


def test_the_checker_agrees_on_all_kinds_of_numbers():
    """Rounded so differently that a claim a rounding too small is no guarantee."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        radius, noise = np.exp(rng.uniform(-60.0, 60.0, 2))
        name = str(rng.choice(["noise_std", "noise_multiplier"]))
        adjacency = str(rng.choice(ADJACENCIES))
        guarantee = moments_of({"adjacency": adjacency, name: noise}, feature_norm=radius)
        unit = Fraction(radius) ** 2 if name == "noise_multiplier" else 1
        square = Fraction(radius) ** 4 / (Fraction(noise) * unit) ** 2
        assert Fraction(guarantee.mu) ** 2 >= square * (2 if adjacency == "replace_one" else 1)
        case = dict(COLUMNS[int(rng.integers(len(COLUMNS)))])
        if "threshold" in case:
            case["threshold"] = float(rng.uniform(0.0, 37.0))
        width, noise = int(rng.integers(1, 900)), float(np.exp(rng.uniform(-20.0, 20.0)))
        columns_of(case, noise_std=noise, columns=width)


def test_releases_beside_each_other():
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.3), 100, pabi.Cyclic(10), epochs=2, step_size=0.1, noise_multiplier=8.0
    )
    assert accepted(pabi.compose(moments_of(MOMENTS[0]), run.guarantee(DELTA))).scope == "run"
    shown = columns_of(COLUMNS[-1])
    both = pabi.compose(shown, columns_of(COLUMNS[3]), shown)
    assert accepted(both).ok
    assert both.delta(50.0) >= 2.0 * shown.delta(50.0) * (1.0 - 1e-9)  # their failures add up


# Accuracies.


@every(("adjacency", "unit"), itertools.product(ADJACENCIES, ("record", "user")))
def test_mu_is_what_one_hit_moves_over_the_noise(adjacency, unit):
    """One hit more or less moves the mean by 1/n; rounding is against us, by a few units of the last."""
    rng = np.random.default_rng(5)
    for _ in range(100):
        n, noise = int(rng.integers(1, 10**7)), float(np.exp(rng.uniform(-20.0, 20.0)))
        guarantee = accuracy(n=n, noise_std=noise, adjacency=adjacency, unit=unit).guarantee(0.0)
        truth = Fraction(1, n) / Fraction(noise)
        assert truth <= Fraction(guarantee.mu) <= truth * (1 + Fraction(1, 2**40))


def test_two_data_sets_attain_it():
    """A record that is got right beside one that is not: two normal laws 1/n apart, told apart exactly so."""
    noisy = accuracy()
    apart = (200 / 300 - 199 / 300) / noisy.accuracy_noise_std
    exact = math.erf(apart / 2.0 / math.sqrt(2.0))  # Φ(μ/2) − Φ(−μ/2)
    assert noisy.guarantee(DELTA).advantage == pytest.approx(exact, rel=1e-12)
    all_refused(payload_of(noisy.guarantee(DELTA)), [("run.n = 299", "")])


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_calibrated_noise_meets_its_target(adjacency):
    noisy = pabi.calibrate(accuracy(noise_std=None, adjacency=adjacency), 0.5, 1e-6)
    assert noisy.guarantee(1e-6).epsilon(1e-6) <= 0.5
    less = accuracy(noise_std=noisy.noise_std * (1.0 - 1e-6), adjacency=adjacency)
    assert less.guarantee(1e-6).epsilon(1e-6) > 0.5


def test_bad_fields_of_an_accuracy_are_named():
    for field, value in (
        ("n", 0),
        ("n", 2.5),
        ("noise_std", 0.0),
        ("noise_std", math.nan),
        ("adjacency", "swap"),
        ("unit", "household"),
    ):
        with pytest.raises(pabi.InvalidInput) as caught:
            accuracy(**{field: value})
        assert caught.value.field == field
    with pytest.raises(pabi.InvalidInput, match="^noise_std"):
        accuracy(noise_std=None).guarantee(DELTA)

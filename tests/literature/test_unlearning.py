"""The published bound on forgetting, against the numbers of its authors' code."""

import math

import pytest
from scipy.optimize import minimize_scalar

import pabi
from pabi.literature import chien_wang_chen_li, compare
from pabi.numbers.errors import NotApplicable

N, LAM = 11264, 0.011264
ETA = 1.0 / (0.25 + LAM)
NOISE = math.sqrt(2.0 * ETA) * 0.03 / ETA
LOSS = pabi.Loss.strongly_convex(LAM, 0.25 + LAM)
GIVEN = {"epochs": 1000, "step_size": ETA, "noise_std": NOISE, "gradient_sensitivity": 2.0}
RUN = pabi.NoisySGD(LOSS, N, pabi.FullBatch(), **GIVEN)


def bound(epochs, order=2.0, **changes):
    terms = {"step_size": ETA, "gradient_norm": 1.0, "strong_convexity": LAM, "noise": 0.03}
    terms |= {"n": N, "b": N} | changes
    return chien_wang_chen_li.unlearning(**terms, epochs=epochs, order=order)


@pytest.mark.parametrize(
    ("epochs", "epsilon"),
    [(1, 1.1431298904662504), (5, 0.9539045241383134), (20, 0.48670925940660015)],
)
def test_the_numbers_of_their_code(epochs, epsilon):
    """It takes the least of the divergence and ln(n)/(α − 1) over orders, to 1e-8 of the order."""

    def at(order):
        return float(bound(epochs, order)) + math.log(N) / (order - 1.0)

    least = minimize_scalar(at, bounds=(2.0, 100_000.0), method="bounded").fun
    assert least == pytest.approx(epsilon, rel=1e-7)


def test_ours_is_less_and_theirs_is_sound():
    for batches in [pabi.FullBatch(), pabi.Cyclic(512)]:
        from dataclasses import replace

        run = replace(RUN, batches=batches, epochs=20)
        rows = compare(pabi.Unlearning(run, [(2 * run.steps_per_epoch, 1)]), 1.0 / N)
        theirs = rows["chien_wang_chen_li.unlearning"]
        assert theirs.status == "sound", batches
        assert rows["pabi"].epsilon < theirs.epsilon, batches


def test_what_it_does_not_cover():
    with pytest.raises(NotApplicable, match="contract"):
        bound(1, strong_convexity=0.0)
    with pytest.raises(NotApplicable, match="an epoch"):
        bound(0)
    for unlearning, reason in (
        (pabi.Unlearning(RUN, [(1, 2)]), "one record"),
        (pabi.Unlearning(RUN, [(1, 1)], step_size=0.1), "constant"),
    ):
        row = compare(unlearning, 1e-5)["chien_wang_chen_li.unlearning"]
        assert not row.applies
        assert reason in row.note

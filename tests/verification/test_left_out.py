"""Certificates of records that are in no batch, and of bins that are drawn anew in every epoch."""

from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi import BallsInBins, Loss, NoisySGD, Reshuffle, ShuffleOnce
from pabi.account.analyses import secret_order
from pabi.account.best import outcomes
from pabi.numbers.errors import NotApplicable
from pabi.verification.schemes import SecretEveryEpoch, SecretOnce, scheme_of
from support.certificates import all_refused, forged, refused

DELTA = 1e-5
STEEP = {"loss": Loss.logistic(1.0, l2=0.05), "step_size": 3.0}
FALLING = {"step_size": np.linspace(0.5, 0.1, 14), "epochs": None, "steps": 14}


def run_of(batches, **changes):
    given = {"loss": Loss.logistic(1.0, l2=0.05), "n": 40, "epochs": 3, "step_size": 0.2}
    return NoisySGD(batches=batches, **{**given, "noise_std": 1.0, "clip_norm": 1.0, **changes})


def payload_of(run, name):
    (found,) = (one.guarantee for one in outcomes(run, DELTA) if one.name == name)
    return found.certificate.payload


SCHEMES = [ShuffleOnce(7, 5), Reshuffle(7, 5), Reshuffle(8, 24), BallsInBins(7, redraw="epoch")]
SCHEMES.append(BallsInBins(7, 9, redraw="epoch"))
CHANGES = [{}, {"epochs": 2.4}, {"epochs": 0.5}, {"loss": Loss.nonconvex(0.5)}, FALLING, STEEP]
CHANGES += [{"release": "path"}, {"cooldown_steps": 3}, {"diameter": 0.5, "epochs": 20}]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_all_that_is_proposed_is_granted(number):
    batches = SCHEMES[number % len(SCHEMES)]
    adjacency = ("replace_one", "zero_out")[number % 2]
    run = run_of(batches, adjacency=adjacency, **CHANGES[number])
    granted = [one.guarantee for one in outcomes(run, DELTA) if one.guarantee is not None]
    assert granted
    assert all(batches.sentence in guarantee.assumptions for guarantee in granted)


def test_what_is_not_so_of_one_shuffle_is_refused():
    payload = payload_of(run_of(ShuffleOnce(7, 5)), "secret order")
    assert pabi.verify(payload).ok
    assert payload["claim"]["mixture"][0][1] == 0.0
    in_order = "ranges: every position is in the order"
    all_refused(
        payload,
        [
            ("cases.0.weight = [1, 4]", "weight: expected 1/8"),
            ("del cases.0", "ranges: expected one that begins at 0"),
            ("cases.1.ranges = [null]", in_order),
            ("cases.0.uses = [0, 1, []]", r"uses: expected \[0, 0, \[\]\]"),
            ("run.batches.spare = 6", "weight: expected 3/20"),
            ("del run.batches.spare", "ranges"),
            ("claim.mixture.0.0 += 0.01; claim.mixture.-1.0 += -0.01", ""),
            *((f"run.batches.spare = {spare}", "spare") for spare in (-1, 40)),
            ("run.batches.spare = 34", "size"),
        ],
    )
    first, *others = payload["cases"]
    for cases in ([first, first, *others], [*others, first]):
        refused(payload | {"cases": cases}, in_order)


def test_a_case_of_no_batch_is_one_where_some_are_left_out_alone():
    payload = payload_of(run_of(ShuffleOnce(7)), "secret order")
    left_out = payload_of(run_of(ShuffleOnce(7, 5)), "secret order")
    payload["cases"].insert(0, left_out["cases"][0])
    refused(payload, "ranges: every position is in the order, got none")


@pytest.mark.parametrize("name", ["secret order", "latest uses", "epoch by epoch"])
def test_missed_epochs_have_the_weight_of_the_spare(name):
    changes = {} if name == "secret order" else FALLING
    payload = payload_of(run_of(Reshuffle(7, 5), **changes), name)
    assert pabi.verify(payload).ok
    missed = [case for case in payload["cases"] if None in case["ranges"]]
    found = sum(Fraction(*case["weight"]) for case in missed if case["ranges"][-1] is None)
    used = payload["run"].get("steps") or 15
    assert found == 1 - Fraction(7 * (used % 5 or 5), 40)
    for case in missed:
        where = payload["cases"].index(case)
        up = Fraction(*case["weight"]) + Fraction(1, 100)
        refused(forged(payload, f"del cases.{where}"), "ranges")
        refused(
            forged(payload, f"cases.{where}.weight = [{up.numerator}, {up.denominator}]"),
            "weight: expected",
        )


def test_bins_that_are_drawn_anew_are_no_bins_that_stay():
    once = run_of(BallsInBins(7), epochs=2.4, **STEEP)
    for name, reason in {
        "secret order": "under reshuffling",
        "secret place": "drawn once",
        "composition": "mu",
    }.items():
        payload = payload_of(once, name)
        refused(forged(payload, 'run.batches.redraw = "epoch"'), reason)
    for other in ('"never"', "1", "null"):
        payload = payload_of(once, "secret order")
        refused(forged(payload, f"run.batches.redraw = {other}"), "redraw")


def test_the_place_in_bins_drawn_anew_does_not_stay_secret():
    with pytest.raises(NotApplicable, match="a record's place changes every epoch"):
        secret_order.secret_place(run_of(BallsInBins(7, redraw="epoch")), DELTA)


def test_every_step_may_have_a_batch_that_is_too_large():
    """The failure of bins that are drawn anew counts steps, of bins that stay bins."""
    n, bins, cap = 40, 6, 20
    once, anew = (scheme_of(BallsInBins(7, redraw=when), n, cap) for when in ("once", "epoch"))
    assert type(once) is SecretOnce
    assert type(anew) is SecretEveryEpoch
    assert once.tail == anew.tail > 0
    assert [once.failure(t) for t in (3, 60)] == [bins * once.tail] * 2
    assert [anew.failure(t) for t in (3, 60)] == [3 * once.tail, 60 * once.tail]
    run = run_of(BallsInBins(7, redraw="epoch"), n=1000, epochs=10, **STEEP)
    sizes = run.fractions(1e-6)
    assert sizes.failure <= 1e-6
    scheme = scheme_of(run.batches, 1000, sizes.cap)
    assert 0.99 * sizes.failure <= float(scheme.failure(run.steps)) <= sizes.failure

"""The trainers of pabi are audited through what users call, and mistakes planted in them are caught.

Each mistake is planted in a shipped function. It is refuted with confidence 1 − 10⁻⁶, and the same audit does
not refute what ships.
"""

from __future__ import annotations

import io
import logging
import time

import numpy as np
import pytest

import pabi
from pabi.audits import audit_outputs
from pabi.execute import engine, sums
from pabi.execute.checkpoint import Randomness
from pabi.learn import LogisticGradients, PrivateLogisticRegression, train
from support.computed_once import computed_once
from support.wide_runs import LONG, gradients, narrow, trained, wide

SURE = 1.0 - 1e-6
MODELS = 20_000
SECONDS = 60.0  # that a mistake may take to be caught

FULL = narrow(batches=pabi.FullBatch(), noise_std=0.04)
CYCLIC = narrow(batches=pabi.Cyclic(10), epochs=1, noise_std=0.2)
UNEVEN = narrow(n=33, batches=pabi.Cyclic(16), epochs=1, noise_std=0.2)


@pytest.fixture(autouse=True)
def _accounted_once(monkeypatch):
    """Equal runs promise the same; what is planted below is in what trains them."""
    computed_once(monkeypatch)


def audited(run, *, models=MODELS, row=None, **options):
    """Models of the record that pulls up, and of the one that pulls down."""
    begin = time.perf_counter()
    last = run.n - 1 if row is None else row
    null, other = (trained(run, pull, models, row=last, **options) for pull in (-LONG, LONG))
    result = audit_outputs(run, null, other, confidence=SURE)
    assert time.perf_counter() - begin < SECONDS
    return result


@pytest.mark.parametrize("run", [FULL, CYCLIC, UNEVEN], ids=["full", "cyclic", "uneven"])
def test_what_ships_is_not_refuted(run):
    result = audited(run)
    assert not result.refuted
    assert result.mu_lower > 0.4 * result.guarantee.mu  # or the audit would see little


# Noise.


@pytest.mark.parametrize("run", [FULL, CYCLIC], ids=["full", "cyclic"])
def test_half_the_noise_is_caught(monkeypatch, run):
    monkeypatch.setattr(engine, "noise_factor", lambda run: 0.5)
    assert audited(run).refuted


class Fixed(Randomness):
    """The same noise in every training."""

    def generator(self):
        return np.random.default_rng(7)


def many(run, calls, *, each=None):
    """(calls, 1) models of separate trainings, by data set: the record pulls down, and up."""
    each = each or (lambda pull: train(run, pull, x0=np.zeros(1)).x)
    row = run.n - 1
    return [
        np.stack([each(gradients(pull, row, 1)) for _ in range(calls)]) for pull in (-LONG, LONG)
    ]


def test_noise_that_is_used_again_is_caught(monkeypatch):
    """In one training it says nothing: so many trainings."""
    assert not audit_outputs(FULL, *many(FULL, 300), confidence=SURE).refuted
    monkeypatch.setattr(engine, "randomness_from", lambda state, **_: Fixed(None))
    assert audit_outputs(FULL, *many(FULL, 300), confidence=SURE).refuted


# Sums.


def test_twice_the_sensitivity_is_caught(monkeypatch):
    clip = sums.clip_coordinates
    monkeypatch.setattr(
        sums, "clip_coordinates", lambda g, bound, *rest: clip(g, 2.0 * bound, *rest)
    )
    monkeypatch.setattr(sums, "clip_norms", lambda g, *rest: g)
    assert audited(CYCLIC).refuted


def test_a_sum_over_what_the_batch_has_is_caught(monkeypatch):
    """The last batch has one record, and its gradient would count sixteen times."""
    summed = engine.per_record_sum

    def divided(per_record, run, users):
        total = summed(per_record, run, users)

        def mean(x, rows):
            count = len(np.arange(run.n)[rows])
            return total(x, rows) * (run.batch_size / count)

        return mean

    monkeypatch.setattr(engine, "per_record_sum", divided)
    assert audited(UNEVEN).refuted


# Orders.

SHUFFLED = narrow(n=20, batches=pabi.ShuffleOnce(1), epochs=1, noise_std=0.5, l2=1.6, step_size=0.5)


def test_an_order_that_is_not_shuffled_is_caught(monkeypatch):
    assert not audit_outputs(SHUFFLED, *many(SHUFFLED, 500), confidence=SURE).refuted

    class Unshuffled(np.random.Generator):
        def permutation(self, n):
            return np.arange(n)

    def generator(self):
        return Unshuffled(np.random.PCG64())

    monkeypatch.setattr(Randomness, "generator", generator)
    assert audit_outputs(SHUFFLED, *many(SHUFFLED, 500), confidence=SURE).refuted


# Interruptions.


class Crash(BaseException):
    """What no sensible handler catches."""


def interrupted(run, pull, models, path, *, at, row):
    """(models,) what is released after a crash at a step and a resumption."""
    calls, per_record = [], gradients(pull, row, models)

    def crashing(x, rows):
        calls.append(1)
        if len(calls) == at + 1:
            raise Crash
        return per_record(x, rows)

    whole, start = wide(run, models), np.zeros(models)
    with pytest.raises(Crash):
        train(whole, crashing, x0=start, checkpoint=path, checkpoint_seconds=0.0)
    return train(whole, per_record, x0=start, resume=path).x


def resumed_audit(run, tmp_path):
    null, other = (
        interrupted(run, pull, MODELS, tmp_path / "run.ckpt", at=2, row=run.n - 1)
        for pull in (-LONG, LONG)
    )
    return null, other


def test_a_resumed_run_is_not_refuted(tmp_path):
    assert not audit_outputs(CYCLIC, *resumed_audit(CYCLIC, tmp_path), confidence=SURE).refuted


def test_a_seed_that_is_resumed_is_caught(tmp_path, monkeypatch):
    """The steps after the resumption take known noise, which an attacker subtracts."""
    draws = Fixed(None)
    monkeypatch.setattr(engine, "randomness_from", lambda state, **_: draws)
    null, other = resumed_audit(CYCLIC, tmp_path)
    # The attacker draws what was drawn, and follows it through the steps after the resumption.
    noise = replayed(CYCLIC, MODELS, first=2)
    assert audit_outputs(CYCLIC, null - noise, other - noise, confidence=SURE).refuted


def replayed(run, models, *, first):
    """(models,) what the noise of the seed adds to the release from step `first` on."""
    eta, std = run.schedule(0, run.steps)
    generator, x = np.random.default_rng(7), np.zeros(models)
    for k in range(first, run.steps):
        x = (1.0 - eta[k] * run.loss.l2) * x - eta[k] * std[k] * generator.standard_normal(models)
    return x


# What is written beside the release.

LONGER = narrow(batches=pabi.Cyclic(10), epochs=8, noise_std=0.4)


def logged(run, pull, models, row):
    """(models, steps) the iterates that stand in a log, and the release."""
    stream = io.StringIO()
    handler, logger = logging.StreamHandler(stream), logging.getLogger("pabi")
    logger.addHandler(handler)
    try:
        x = trained(run, pull, models, row=row)
    finally:
        logger.removeHandler(handler)
    lines = [np.fromstring(line, sep=" ") for line in stream.getvalue().splitlines()]
    return np.stack([*lines, x], axis=1)


def increments(path, run):
    """(models, steps) what each step added that the last iterate before does not explain."""
    slope = 1.0 - run.step_size * run.loss.l2
    return (
        np.diff(path, axis=1, prepend=0.0) + (1.0 - slope) * np.pad(path, ((0, 0), (1, 0)))[:, :-1]
    )


def audited_with_its_log(run, models=4_000):
    null, other = (increments(logged(run, pull, models, run.n - 1), run) for pull in (-LONG, LONG))
    return audit_outputs(run, null, other, confidence=SURE)


def test_iterates_in_a_log_are_caught(monkeypatch):
    assert not audited_with_its_log(LONGER).refuted
    after = engine._Aftermath.__call__

    def telling(self, state):
        logging.getLogger("pabi").warning(" ".join(map(repr, state.x.tolist())))
        after(self, state)

    monkeypatch.setattr(engine._Aftermath, "__call__", telling)
    assert audited_with_its_log(LONGER).refuted


# Users.


def by_users(run, pull, models):
    """(models,) releases where the last user has five rows."""
    groups = np.append(np.arange(run.n), np.full(4, run.n - 1))
    pulls = np.where(groups == run.n - 1, pull, 0.0)

    def per_record(x, rows):
        return np.broadcast_to(pulls[rows][:, None], (len(pulls[rows]), models))

    return train(wide(run, models), per_record, x0=np.zeros(models), groups=groups).x


USERS = narrow(batches=pabi.Cyclic(10), epochs=1, noise_std=0.2, unit="user")


def test_users_are_not_refuted():
    null, other = (by_users(USERS, pull, MODELS) for pull in (-LONG, LONG))
    assert not audit_outputs(USERS, null, other, confidence=SURE).refuted


def test_users_whose_rows_are_added_are_caught(monkeypatch):
    """In place of their mean."""
    summed = engine.per_record_sum

    def added(per_record, run, users):
        total = summed(per_record, run, users)
        return lambda x, rows: 5.0 * total(x, rows)  # all others are at rest

    monkeypatch.setattr(engine, "per_record_sum", added)
    null, other = (by_users(USERS, pull, MODELS) for pull in (-LONG, LONG))
    assert audit_outputs(USERS, null, other, confidence=SURE).refuted


# Estimators, and somebody else's trainer.

REGRESSION = pabi.NoisySGD(
    pabi.Loss.logistic(1.0, l2=0.5),
    n=40,
    batches=pabi.FullBatch(),
    steps=4,
    step_size=0.5,
    noise_std=0.005,
    clip_norm=0.1,
)


def own_trainer(X, y):
    return train(REGRESSION, LogisticGradients(X, y), x0=np.zeros(1)).x


def test_a_trainer_from_outside_is_audited():
    result = pabi.audit(REGRESSION, train=own_trainer, trainings=2_000, confidence=SURE)
    assert not result.refuted
    assert not result.not_as_described
    assert result.conformity.trainings == 2_000
    assert result.mu_lower > 0.4 * result.guarantee.mu
    assert result.law is None


def test_a_trainer_from_outside_with_half_the_noise_is_caught(monkeypatch):
    monkeypatch.setattr(engine, "noise_factor", lambda run: 0.5)
    result = pabi.audit(REGRESSION, train=own_trainer, trainings=2_000, confidence=SURE)
    assert result.refuted
    assert result.not_as_described


def test_nine_tenths_of_the_noise_are_caught(monkeypatch):
    """Which no bound on ε shows in so many trainings; the reach says so before they begin."""
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0),
        n=10,
        batches=pabi.FullBatch(),
        steps=2,
        step_size=0.5,
        noise_std=0.5,
    )
    said = pabi.audits.reach(run, trainings=4_000, random_state=0)
    assert said.faults[0].trainings <= 4_000
    monkeypatch.setattr(engine, "noise_factor", lambda run: 0.9)

    def released(X, y):
        return train(run, LogisticGradients(X, y), x0=np.zeros(1)).x

    result = pabi.audit(run, train=released, trainings=4_000)
    assert result.not_as_described
    assert not result.refuted


ESTIMATOR = {
    "epsilon": 6.0,
    "delta": 1e-3,
    "batches": pabi.FullBatch(),
    "epochs": 3,
    "step_size": 2.0,
    "clip_norm": 0.2,
    "l2": 0.01,
    "fit_intercept": False,
}


def fits(calls, **changes):
    """[(calls, 1) coefficients] of two data sets, and what is promised of the models."""
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0),
        n=40,
        batches=pabi.FullBatch(),
        steps=1,
        step_size=1.0,
        noise_std=1.0,
    )
    tables = []
    for data in reversed(pabi.audits.canary_pair(run)):
        models = [
            PrivateLogisticRegression(**{**ESTIMATOR, **changes}).fit(data.X, data.y)
            for _ in range(calls)
        ]
        tables.append(np.stack([released(model) for model in models]))
    return tables, models[0].guarantee_


def released(model):
    """All that a fit releases, as numbers."""
    moments = model.moments_
    rest = [] if moments is None else [np.ravel(model.preconditioner_.matrix)]
    return np.concatenate([np.ravel(model.coef_), *rest])


@pytest.mark.parametrize("precondition", [None, 0.5], ids=["plain", "whitened"])
def test_estimators_are_not_refuted(precondition):
    tables, guarantee = fits(100, precondition=precondition)
    assert not audit_outputs(guarantee, *tables, delta=1e-3, confidence=SURE).refuted


def test_an_estimator_with_a_quarter_of_the_noise_is_caught(monkeypatch):
    monkeypatch.setattr(engine, "noise_factor", lambda run: 0.25)
    tables, guarantee = fits(300)  # with half of them no threshold shows a μ above 1.67 surely
    assert audit_outputs(guarantee, *tables, delta=1e-3, confidence=SURE).refuted

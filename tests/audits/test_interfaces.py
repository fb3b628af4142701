"""Estimators, users, forgetting and the trainers of other libraries, audited through what users call.

Mistakes are planted in shipped functions. Each is refuted with confidence 1 − 10⁻⁶, and the same audit does
not refute what ships. Where records pull at a number each, all at rest otherwise, one training is as many
audits as it has records: nothing but its own record and its own noise moves a number.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.audits import audit_outputs
from pabi.execute import engine, sums
from pabi.learn import PrivateLogisticRegression, StateFile, forgetting
from support.computed_once import computed_once
from support.frameworks import framework

pytestmark = pytest.mark.filterwarnings("ignore")
SURE, DELTA = 1.0 - 1e-6, 1e-3
RECORDS = 1_000  # half of them pull


def audited(promised, released):
    """`released`: (RECORDS,) numbers, of which the records of the second half pull."""
    null, other = released[: RECORDS // 2], released[RECORDS // 2 :]
    return audit_outputs(promised, null, other, delta=DELTA, confidence=SURE)


def seen(result):
    """Whether a trainer that keeps its promise comes near it, or the audit would see little."""
    return not result.refuted and result.mu_lower > 0.3 * result.guarantee.mu


PULLING = np.arange(RECORDS) >= RECORDS // 2


# Estimators, of records and of users.


def classifier(**changes):
    fields = {
        "epsilon": 8.0,
        "delta": DELTA,
        "batches": pabi.FullBatch(),
        "epochs": 3,
        "step_size": 2.0,
        "clip_norm": 0.2,
        "l2": 0.01,
        "fit_intercept": False,
        "precondition": None,
        "adjacency": "zero_out",
        "classes": [0, 1],
        **changes,
    }
    return PrivateLogisticRegression(**fields)


def classified(rows=1):
    """The audit of a fit in which everybody has so many rows."""
    X = np.repeat(np.diag(PULLING.astype(float)), rows, axis=0)
    y, ids = np.ones(len(X), int), np.repeat(np.arange(RECORDS), rows)
    if rows == 1:
        model = classifier().fit(X, y)
    else:
        model = classifier(users=RECORDS).fit(X, y, groups=ids)
    return audited(model.guarantee_, model.coef_[0])


def test_a_fit_is_not_refuted():
    assert seen(classified())


def test_a_fit_with_half_the_noise_is_caught(monkeypatch):
    monkeypatch.setattr(engine, "noise_factor", lambda run: 0.5)
    assert classified().refuted


def test_a_fit_on_users_is_not_refuted():
    assert seen(classified(rows=3))


def test_users_bounded_by_their_records_are_caught(monkeypatch):
    """Every record counts whole, in place of its user's mean."""
    of = sums.UserRows.of.__func__

    def counted(cls, ids, users=None):
        rows = of(cls, ids, users)
        return replace(rows, shares=np.ones_like(rows.shares))

    monkeypatch.setattr(sums.UserRows, "of", classmethod(counted))
    assert classified(rows=3).refuted


# Forgetting. Somebody who has forgotten a record compares with a training in which it was at rest.

ROWS = 40


def forgotten(pulls, tmp_path, number, **changes):
    """(what is promised, the coefficient, …) of a fit at which the last record pulls, after a request."""
    X, y = np.zeros((ROWS, 1)), np.ones(ROWS, int)
    X[-1] = float(pulls)
    file = StateFile(tmp_path / f"{pulls}-{number}", StateFile.new_key())
    model = classifier(epsilon=15.0, l2=0.2, step_size=1.0, cooldown_epochs=0, **changes)
    model.fit(X, y, keep_state=file)
    newer = model.forget(X, y, [ROWS - 1], 2.0, DELTA, state=file, accept_loss=True)
    return newer.unlearning_guarantee_, newer.coef_[0, 0], newer.n_iter_ - model.n_iter_, model.run_


def audited_forgetting(tmp_path, models, explained=lambda training, run: 0.0):
    """`explained`: what an attacker knows of the release, and subtracts."""
    null, other = (
        [forgotten(pulls, tmp_path, number) for number in range(models)] for pulls in (False, True)
    )
    releases = [
        [x - explained(training, run) for _, x, training, run in some] for some in (null, other)
    ]
    return audit_outputs(null[0][0], *releases, delta=DELTA, confidence=SURE)


@pytest.mark.parametrize("models", [50, pytest.param(400, marks=pytest.mark.nightly)])
def test_forgetting_is_not_refuted(monkeypatch, tmp_path, models):
    computed_once(monkeypatch)
    assert not audited_forgetting(tmp_path, models).refuted


@pytest.mark.nightly
def test_too_few_steps_are_caught(monkeypatch, tmp_path):
    computed_once(monkeypatch)
    plan = forgetting.planned_for

    def shorter(held, records, *rest):
        whole = plan(held, records, *rest)
        return replace(whole, unlearning=held.unlearning(1, records))

    monkeypatch.setattr(forgetting, "planned_for", shorter)
    assert audited_forgetting(tmp_path, 220).refuted


@pytest.mark.nightly
def test_noise_that_forgetting_uses_again_is_caught(monkeypatch, tmp_path):
    """Whoever knows it has the iterate that was to be forgotten."""
    computed_once(monkeypatch)
    monkeypatch.setattr(engine, "secret_generator", lambda: np.random.default_rng(7))

    def explained(training, run):
        generator, x = np.random.default_rng(7), 0.0
        for _ in range(training):
            noise = run.noise_std * generator.standard_normal(1)[0]
            x = (1.0 - run.step_size * run.loss.l2) * x - run.step_size * noise
        return x

    assert audited_forgetting(tmp_path, 150, explained).refuted


@pytest.mark.nightly
def test_records_that_are_withdrawn_and_used_are_caught(monkeypatch, tmp_path):
    computed_once(monkeypatch)

    def whole(self, table, held, blank):
        return self._gradients(self._records(table.X), table.targets, held.run.loss)

    monkeypatch.setattr(forgetting, "_with_blanks", lambda X, blank, wiped: X)
    monkeypatch.setattr(forgetting.ForgettingModel, "_without", whole)
    assert audited_forgetting(tmp_path, 150).refuted


def orders(tmp_path, number):
    """(8,) the places of the records in the last epoch of a fit, and in that of a request: hardly any noise
    is in it, and later uses weigh more."""
    X, y = np.eye(8), np.ones(8, int)
    file = StateFile(tmp_path / f"order-{number}", StateFile.new_key())
    model = classifier(
        epsilon=1e6, l2=0.5, step_size=1.0, cooldown_epochs=0, batches=pabi.ShuffleOnce(1), epochs=1
    )
    model.fit(X, y, keep_state=file)
    newer = model.forget(X, y, [0], 1e6, DELTA, state=file, accept_loss=True)
    return [np.argsort(one.coef_[0, 1:]).tolist() for one in (model, newer)]


def kept_orders(tmp_path):
    """In how many of five requests the order is that of the fit. A redrawn one is so once in 5040."""
    return sum(first == second for first, second in (orders(tmp_path, i) for i in range(5)))


def test_the_order_of_a_fit_is_that_of_its_requests(tmp_path):
    assert kept_orders(tmp_path) == 5


def test_an_order_that_is_redrawn_is_caught(monkeypatch, tmp_path):
    """By the order itself: no release is known to show that it was drawn again."""
    rows = engine.batch_rows
    monkeypatch.setattr(
        engine, "batch_rows", lambda run, source, secret=None, *more: rows(run, source, None, *more)
    )
    assert kept_orders(tmp_path) < 3  # three of five with probability 10⁻¹⁰


# Modules of PyTorch, all of whose parameters are trained, and functions of JAX.


def linear_run():
    return pabi.NoisySGD(
        pabi.Loss.unknown(),
        n=RECORDS,
        batches=pabi.FullBatch(),
        epochs=3,
        step_size=1.0,
        noise_multiplier=1.0,
        clip_norm=1.0,
        adjacency="zero_out",
    )


def with_torch():
    """The audit of a module of two parts, of which the first hardly counts."""
    torch = framework("torch")
    from pabi.integrations.torch import train

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Parameter(torch.zeros(RECORDS))
            self.second = torch.nn.Parameter(torch.zeros(RECORDS))

        def forward(self, rows):
            return rows @ (1e-3 * self.first + self.second)

    rows = 30.0 * torch.diag(torch.as_tensor(PULLING, dtype=torch.float32))
    pairs = torch.utils.data.TensorDataset(rows, torch.ones(RECORDS))
    trained = train(Both(), pairs, linear_run(), loss=lambda out, target: (out * target).sum())
    return audited(trained.guarantee, trained.x[RECORDS:])


def with_jax():
    framework("jax")
    from pabi.integrations.jax import train

    def loss(params, example):
        place, pull = example
        return 30.0 * pull * (1e-3 * params["first"][place] + params["second"][place])

    start = {name: np.zeros(RECORDS) for name in ("first", "second")}
    trained = train(start, loss, (np.arange(RECORDS), PULLING.astype(float)), linear_run())
    return audited(trained.guarantee, np.asarray(trained.params["second"]))


TRAINERS = pytest.mark.parametrize("train", [with_torch, with_jax], ids=["torch", "jax"])


def jax_training():
    framework("jax")
    from pabi.integrations.jax import training

    return training


@TRAINERS
def test_other_libraries_are_not_refuted(train):
    assert seen(train())


@TRAINERS
def test_half_the_noise_in_other_libraries_is_caught(monkeypatch, train):
    monkeypatch.setattr(engine, "noise_factor", lambda run: 0.5)
    if train is with_jax:
        monkeypatch.setattr(jax_training(), "noise_factor", lambda run: 0.5)
    assert train().refuted


@TRAINERS
def test_a_wrong_divisor_in_other_libraries_is_caught(monkeypatch, train):
    """Half of the batch."""
    if train is with_jax:
        gradients_of = jax_training().gradients_of

        def doubled(*given, **options):
            total = gradients_of(*given, **options)
            return lambda x, batch, held: 2.0 * total(x, batch, held)

        monkeypatch.setattr(jax_training(), "gradients_of", doubled)
    summed = engine.per_record_sum

    def halved(per_record, run, users):
        total = summed(per_record, run, users)
        return lambda x, rows: 2.0 * total(x, rows)

    monkeypatch.setattr(engine, "per_record_sum", halved)
    assert train().refuted


@TRAINERS
def test_a_layer_that_is_not_clipped_is_caught(monkeypatch, train):
    """The norm is that of the first parameters alone."""
    clip = sums.clip_norms

    def of_the_first(each, bound):
        return np.concatenate([clip(each[:, :RECORDS], bound), each[:, RECORDS:]], axis=1)

    monkeypatch.setattr(sums, "clip_norms", of_the_first)
    if train is with_jax:
        from pabi.integrations.jax import gradients

        clipped = gradients._clipped

        def of_a_part(jax, gradient, limit, size):
            first = clipped(jax, gradient[:RECORDS], limit, size)
            return jax.numpy.concatenate([first, gradient[RECORDS:]])

        monkeypatch.setattr(gradients, "_clipped", of_a_part)
    assert train().refuted

"""What ships is audited through what users call and not refuted; mistakes planted in it are caught.

Each mistake is planted in a shipped function and refuted with confidence 1 − 10⁻⁶. Where every coordinate is
a model of its own, or every record has one, one training is as many trainings.
"""

import logging
from dataclasses import replace
from functools import partial
from importlib import import_module

import numpy as np
import pytest

import pabi
from pabi.audits import audit_outputs
from pabi.execute import engine, sums
from pabi.execute.checkpoint import Randomness
from pabi.execute.noise import StepNoise
from pabi.learn import LogisticGradients, PrivateLogisticRegression, StateFile, forgetting, train
from support.computed_once import computed_once
from support.execution import Crash
from support.frameworks import framework
from support.wide_runs import (
    LONG,
    Fixed,
    gradients,
    half_the_noise,
    narrow,
    trained,
    twice_the_sensitivity,
    wide,
)

pytestmark = pytest.mark.filterwarnings("ignore")
SURE, DELTA = 1.0 - 1e-6, 1e-3
MODELS = 20_000

FULL = narrow(batches=pabi.FullBatch(), noise_std=0.04)
CYCLIC = narrow(batches=pabi.Cyclic(10), epochs=1, noise_std=0.2)
UNEVEN = narrow(n=33, batches=pabi.Cyclic(16), epochs=1, noise_std=0.2)
SHUFFLED = narrow(n=20, batches=pabi.ShuffleOnce(1), epochs=1, noise_std=0.5, l2=1.6, step_size=0.5)


@pytest.fixture(autouse=True)
def _accounted_once(monkeypatch):
    """Equal runs promise the same; what is planted below is in what trains them."""
    computed_once(monkeypatch)


def audited(run):
    """Models of the record that pulls down, and of the one that pulls up."""
    models = (trained(run, pull, MODELS, row=run.n - 1) for pull in (-LONG, LONG))
    return audit_outputs(run, *models, confidence=SURE)


def audited_one_by_one(run, trainings):
    pulls = (gradients(pull, run.n - 1, 1) for pull in (-LONG, LONG))
    models = [np.stack([train(run, p, np.zeros(1)).x for _ in range(trainings)]) for p in pulls]
    return audit_outputs(run, *models, confidence=SURE)


@pytest.mark.parametrize("run", [FULL, CYCLIC, UNEVEN], ids=["full", "cyclic", "uneven"])
def test_what_ships_is_not_refuted(run):
    result = audited(run)
    assert not result.refuted
    assert result.mu_lower > 0.4 * result.guarantee.mu  # or the audit would see little


def sums_divided_by_what_the_batch_has(monkeypatch):
    """The last batch has one record, and its gradient counts sixteen times."""
    summed = engine.per_record_sum

    def divided(per_record, run, users):
        total = summed(per_record, run, users)
        return lambda x, rows: total(x, rows) * (run.batch_size / len(np.arange(run.n)[rows]))

    monkeypatch.setattr(engine, "per_record_sum", divided)


def sums_times(factor, monkeypatch, name="pabi.execute.engine.per_record_sum"):
    """What makes sums makes so many times as large ones."""
    module, made = name.rpartition(".")[::2]
    make = getattr(import_module(module), made)

    def larger(*given, **options):
        total = make(*given, **options)
        return lambda *point: factor * total(*point)

    monkeypatch.setattr(name, larger)


@pytest.mark.parametrize(
    ("plant", "run"),
    [
        (half_the_noise, FULL),
        (half_the_noise, CYCLIC),
        (twice_the_sensitivity, CYCLIC),
        (sums_divided_by_what_the_batch_has, UNEVEN),
    ],
)
def test_what_is_planted_is_caught(monkeypatch, plant, run):
    plant(monkeypatch)
    assert audited(run).refuted


def fixed_noise(monkeypatch):
    monkeypatch.setattr(engine, "randomness_from", lambda state, **_: Fixed(None))


def test_noise_that_is_used_again_is_caught(monkeypatch):
    """In one training it says nothing: so many trainings."""
    assert not audited_one_by_one(FULL, 300).refuted
    fixed_noise(monkeypatch)
    assert audited_one_by_one(FULL, 300).refuted


def test_an_order_that_is_not_shuffled_is_caught(monkeypatch):
    class Unshuffled(np.random.Generator):
        def permutation(self, n):
            return np.arange(n)

    assert not audited_one_by_one(SHUFFLED, 500).refuted
    monkeypatch.setattr(Randomness, "generator", lambda self: Unshuffled(np.random.PCG64()))
    assert audited_one_by_one(SHUFFLED, 500).refuted


def resumed(run, pull, path, at):
    """(MODELS,) what is released after a crash in step `at` and a resumption."""
    calls, per_record = [], gradients(pull, run.n - 1, MODELS)

    def crashing(x, rows):
        calls.append(1)
        if len(calls) == at + 1:
            raise Crash
        return per_record(x, rows)

    run, x0 = wide(run, MODELS), np.zeros(MODELS)
    with pytest.raises(Crash):
        train(run, crashing, x0, checkpoint=path, checkpoint_seconds=0.0)
    return train(run, per_record, x0, resume=path).x


def later_noise(run, first):
    """(MODELS,) what the noise of the seed adds to the release from step `first` on."""
    (eta, std), generator, x = (
        run.schedule(0, run.steps),
        np.random.default_rng(7),
        np.zeros(MODELS),
    )
    for k in range(first, run.steps):
        moved = wide(run, MODELS).sensitivity / run.batch_size
        noise = StepNoise(std[k], moved, MODELS)(np.zeros(MODELS), generator)
        x = (1.0 - eta[k] * run.loss.l2) * x - eta[k] * noise
    return x


def test_a_seed_that_is_resumed_is_caught(monkeypatch, tmp_path):
    """Steps after the resumption take known noise, which an attacker draws again and subtracts."""

    def audited_less(noise):
        models = (resumed(CYCLIC, pull, tmp_path / "run", 2) - noise for pull in (-LONG, LONG))
        return audit_outputs(CYCLIC, *models, confidence=SURE)

    assert not audited_less(0.0).refuted
    fixed_noise(monkeypatch)
    assert audited_less(later_noise(CYCLIC, 2)).refuted


LOGGED = narrow(batches=pabi.Cyclic(10), epochs=8, noise_std=0.4)


def test_iterates_in_a_log_are_caught(monkeypatch, caplog):
    """Whoever reads them has what each step added that the last iterate does not explain."""

    def added(pull):
        caplog.clear()
        x = trained(LOGGED, pull, 4_000, row=LOGGED.n - 1)
        lines = [np.fromstring(one.message, sep=" ") for one in caplog.records]
        path = np.stack([*lines, x], axis=1)
        slope = 1.0 - LOGGED.step_size * LOGGED.loss.l2
        return path - slope * np.pad(path, ((0, 0), (1, 0)))[:, :-1]

    assert not audit_outputs(LOGGED, added(-LONG), added(LONG), confidence=SURE).refuted
    after = engine._Aftermath.__call__

    def telling(self, state):
        logging.getLogger("pabi").warning(" ".join(map(repr, state.x.tolist())))
        after(self, state)

    monkeypatch.setattr(engine._Aftermath, "__call__", telling)
    assert audit_outputs(LOGGED, added(-LONG), added(LONG), confidence=SURE).refuted


def test_users_whose_rows_are_added_are_caught(monkeypatch):
    """In place of their mean: of one user who has five, where all others are at rest."""
    run, start = replace(CYCLIC, unit="user"), np.zeros(MODELS)
    groups = np.append(np.arange(run.n), np.full(4, run.n - 1))

    def released(pull):
        pulls = np.where(groups == run.n - 1, pull, 0.0)[:, None] * np.ones(MODELS)
        return train(wide(run, MODELS), lambda x, rows: pulls[rows], start, groups=groups).x

    assert not audit_outputs(run, released(-LONG), released(LONG), confidence=SURE).refuted
    sums_times(5.0, monkeypatch)
    assert audit_outputs(run, released(-LONG), released(LONG), confidence=SURE).refuted


# Somebody else's trainer.

REGRESSION = pabi.NoisySGD(
    pabi.Loss.logistic(1.0, l2=0.5),
    n=40,
    batches=pabi.FullBatch(),
    steps=4,
    step_size=0.5,
    noise_std=0.005,
    clip_norm=0.1,
)


def audited_from_outside():
    def own(X, y):
        return train(REGRESSION, LogisticGradients(X, y), x0=np.zeros(1)).x

    return pabi.audit(REGRESSION, train=own, trainings=2_000, confidence=SURE)


def test_a_trainer_from_outside_is_audited(monkeypatch):
    result = audited_from_outside()
    assert not result.refuted
    assert not result.not_as_described
    assert result.conformity.trainings == 2_000
    # Of fresh noise it is .52 with a standard deviation of .06.
    assert result.mu_lower > 0.2 * result.guarantee.mu
    assert result.law is None
    half_the_noise(monkeypatch)
    result = audited_from_outside()
    assert result.refuted
    assert result.not_as_described


# Fits in which every record has a coordinate, and those of the second half pull at it.

RECORDS = 1_000
PULLING = np.arange(RECORDS) >= RECORDS // 2


def audited_by_record(promised, released):
    null, other = released[: RECORDS // 2], released[RECORDS // 2 :]
    return audit_outputs(promised, null, other, delta=DELTA, confidence=SURE)


def seen(result):
    """Whether a trainer that keeps its promise comes near it, or the audit would see little."""
    return not result.refuted and result.mu_lower > 0.3 * result.guarantee.mu


def classifier(**changes):
    fields = {
        **{"epsilon": 8.0, "delta": DELTA, "batches": pabi.FullBatch(), "epochs": 3},
        **{"step_size": 2.0, "clip_norm": 0.2, "l2": 0.01, "fit_intercept": False},
        **{"precondition": None, "adjacency": "zero_out", "classes": [0, 1], **changes},
    }
    return PrivateLogisticRegression(**fields)


def classified(rows=1):
    """The audit of a fit in which everybody has so many rows."""
    X = np.repeat(np.diag(PULLING.astype(float)), rows, axis=0)
    y, ids = np.ones(len(X), int), np.repeat(np.arange(RECORDS), rows)
    users = {} if rows == 1 else {"users": RECORDS}
    model = classifier(**users).fit(X, y, groups=ids if users else None)
    return audited_by_record(model.guarantee_, model.coef_[0])


def records_that_count_whole(monkeypatch):
    """In place of their user's mean."""
    of = sums.UserRows.of.__func__

    def counted(cls, ids, users=None):
        rows = of(cls, ids, users)
        return replace(rows, shares=np.ones_like(rows.shares))

    monkeypatch.setattr(sums.UserRows, "of", classmethod(counted))


@pytest.mark.parametrize(("rows", "plant"), [(1, half_the_noise), (3, records_that_count_whole)])
def test_a_fit_is_not_refuted_but_with_a_mistake(monkeypatch, rows, plant):
    assert seen(classified(rows))
    plant(monkeypatch)
    assert classified(rows).refuted


def with_torch(run):
    """A module of two parts, of which the first hardly counts."""
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
    trained = train(Both(), pairs, run, loss=lambda out, target: (out * target).sum())
    return trained.guarantee, trained.x[RECORDS:]


def with_jax(run):
    framework("jax")
    from pabi.integrations.jax import train

    def loss(params, example):
        place, pull = example
        return 30.0 * pull * (1e-3 * params["first"][place] + params["second"][place])

    start = {name: np.zeros(RECORDS) for name in ("first", "second")}
    trained = train(start, loss, (np.arange(RECORDS), PULLING.astype(float)), run)
    return trained.guarantee, np.asarray(trained.params["second"])


def the_first_parameters_clipped_alone(monkeypatch):
    clip = sums.clip_norms
    monkeypatch.setattr(
        sums,
        "clip_norms",
        lambda g, bound: np.concatenate([clip(g[:, :RECORDS], bound), g[:, RECORDS:]], axis=1),
    )


def the_first_parameters_of_jax_clipped_alone(monkeypatch):
    name = "pabi.integrations.jax.gradients"
    clipped = import_module(name)._clipped

    def of_a_part(jax, gradient, limit, size):
        first = clipped(jax, gradient[:RECORDS], limit, size)
        return jax.numpy.concatenate([first, gradient[RECORDS:]])

    monkeypatch.setattr(f"{name}._clipped", of_a_part)


JAX = "pabi.integrations.jax.training"
OF_TORCH = [half_the_noise, partial(sums_times, 2.0), the_first_parameters_clipped_alone]
OF_JAX = [
    lambda patch: patch.setattr(f"{JAX}.noise_factor", lambda run: 0.5),
    lambda patch: sums_times(2.0, patch, f"{JAX}.gradients_of"),
    the_first_parameters_of_jax_clipped_alone,
]
PLANTED = [(with_torch, plant) for plant in (None, *OF_TORCH)]
PLANTED += [(with_jax, plant) for plant in (None, *OF_JAX)]


@pytest.mark.parametrize(("train", "plant"), PLANTED)
def test_other_libraries_are_not_refuted_but_with_a_mistake(monkeypatch, train, plant):
    given = {"epochs": 3, "step_size": 1.0, "noise_multiplier": 1.0, "clip_norm": 1.0}
    given |= {"batches": pabi.FullBatch(), "adjacency": "zero_out"}
    if plant is not None:
        plant(monkeypatch)
    result = audited_by_record(*train(pabi.NoisySGD(pabi.Loss.unknown(), n=RECORDS, **given)))
    assert seen(result) if plant is None else result.refuted


# Forgetting. Somebody who has forgotten a record compares with a training in which it was at rest.


def forgotten(X, file, requested, **changes):
    """A fit and what a request for a row makes of it."""
    y, state = np.ones(len(X), int), StateFile(file, StateFile.new_key())
    model = classifier(step_size=1.0, cooldown_epochs=0, **changes).fit(X, y, keep_state=state)
    row, epsilon = requested
    return model, model.forget(X, y, [row], epsilon, DELTA, state=state, accept_loss=True)


def audited_forgetting(folder, models, known=lambda model, steps: 0.0):
    """`known`: what an attacker knows of the release of a model, and subtracts."""
    tables = []
    for pulls in (0.0, 1.0):
        X = np.zeros((40, 1))
        X[-1] = pulls
        releases = []
        for k in range(models):
            file = folder / f"{pulls}-{k}"
            model, newer = forgotten(X, file, (39, 2.0), epsilon=15.0, l2=0.2)
            releases.append(newer.coef_[0, 0] - known(model, newer.n_iter_ - model.n_iter_))
        tables.append(releases)
    return audit_outputs(newer.unlearning_guarantee_, *tables, delta=DELTA, confidence=SURE)


@pytest.mark.parametrize("models", [50, pytest.param(400, marks=pytest.mark.nightly)])
def test_forgetting_is_not_refuted(tmp_path, models):
    assert not audited_forgetting(tmp_path, models).refuted


@pytest.mark.nightly
def test_too_few_steps_are_caught(monkeypatch, tmp_path):
    plan = forgetting.planned_for

    def shorter(held, records, *rest):
        return replace(plan(held, records, *rest), unlearning=held.unlearning(1, records))

    monkeypatch.setattr(forgetting, "planned_for", shorter)
    assert audited_forgetting(tmp_path, 220).refuted


@pytest.mark.nightly
def test_noise_that_forgetting_uses_again_is_caught(monkeypatch, tmp_path):
    """Whoever knows it has the iterate that was to be forgotten."""
    monkeypatch.setattr(engine, "secret_generator", lambda: np.random.default_rng(7))

    def known(model, steps):
        run, generator, x = model.run_, np.random.default_rng(7), 0.0
        for _ in range(steps):
            noise = run.noise_std * generator.standard_normal(1)[0]
            x = (1.0 - run.step_size * run.loss.l2) * x - run.step_size * noise
        return x

    assert audited_forgetting(tmp_path, 150, known).refuted


@pytest.mark.nightly
def test_records_that_are_withdrawn_and_used_are_caught(monkeypatch, tmp_path):
    def whole(self, table, held, blank):
        return self._gradients(self._records(table.X), table.targets, held.run.loss)

    monkeypatch.setattr(forgetting, "with_blanks", lambda X, blank, wiped: X)
    monkeypatch.setattr(forgetting.ForgettingModel, "_without", whole)
    assert audited_forgetting(tmp_path, 150).refuted


def test_the_order_of_a_fit_is_that_of_its_requests(monkeypatch, tmp_path):
    """The places of eight records in the last epoch of a fit and of a request: hardly any noise is in it, and
    later uses weigh more. Of five redrawn orders three are the same with probability 10⁻¹⁰."""
    settings = {"epsilon": 1e6, "l2": 0.5, "batches": pabi.ShuffleOnce(1), "epochs": 1}

    def kept(name):
        pairs = (
            forgotten(np.eye(8), tmp_path / f"{name}-{k}", (0, 1e6), **settings) for k in range(5)
        )
        orders = ([np.argsort(one.coef_[0, 1:]).tolist() for one in pair] for pair in pairs)
        return sum(first == second for first, second in orders)

    assert kept("shipped") == 5
    rows = engine.batch_rows
    monkeypatch.setattr(
        engine, "batch_rows", lambda run, source, secret=None, *more: rows(run, source, None, *more)
    )
    assert kept("redrawn") < 3

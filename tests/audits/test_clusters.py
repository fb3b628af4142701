"""Trainings and chains on a cluster are audited through what users call, and planted mistakes are caught.

Each mistake is planted in a shipped function and refuted with confidence 1 − 10⁻⁶; the same audit does not
refute what ships. Every coordinate is a model of its own, so that one training is as many trainings. A
partition that is left out lessens what one record moves, and no audit of privacy sees it: the sum does.
"""

from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.audits import audit_outputs
from pabi.execute import engine, hiding
from pabi.integrations.dask import langevin, train
from pabi.integrations.dask import sums as partitions
from pabi.integrations.dask.sums import ClusterGradients
from pabi.sampling import chains
from support.clusters import IN_PROCESS
from support.large import package
from support.wide_runs import LONG, Fixed, half_the_noise, narrow, twice_the_sensitivity, wide

pytestmark = pytest.mark.filterwarnings(
    "ignore::pabi.PrivacyWarning", "ignore::pabi.SamplingWarning"
)
SURE, MODELS = 1.0 - 1e-6, 20_000
ROWS = 15  # of a partition: forty records are in three
CYCLIC = narrow(batches=pabi.Cyclic(10), epochs=1, noise_std=0.2)
FULL = narrow(batches=pabi.FullBatch(), noise_std=0.04)


@pytest.fixture(scope="module")
def client():
    distributed = package("distributed")
    with (
        distributed.LocalCluster(n_workers=2, **IN_PROCESS) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def pulls(x, features, targets):
    """Every record's pull at all models."""
    return np.broadcast_to(features, (len(features), len(x)))


def released(client, run, column, models):
    """(models,) what is released of records that pull so."""
    X = package("dask.array").from_array(column[:, None], chunks=(ROWS, -1))
    given = {"client": client, "per_record_gradients": pulls, "x0": np.zeros(models)}
    return train(run, X, np.zeros(run.n), **given).x


def trained(client, run, pull):
    """Where the last record pulls so, and all others rest."""
    return released(client, wide(run, MODELS), np.append(np.zeros(run.n - 1), pull), MODELS)


def audited(client, run, *, less=0.0):
    """`less`: what the attacker knows, and subtracts."""
    null, other = (trained(client, run, pull) - less for pull in (-LONG, LONG))
    return audit_outputs(run, null, other, confidence=SURE)


RUNS = pytest.mark.parametrize("run", [FULL, CYCLIC], ids=["full", "cyclic"])


@RUNS
def test_what_ships_is_not_refuted(client, run):
    result = audited(client, run)
    assert not result.refuted
    # Or the audit would see little: .445 in the mean of many, and .03 from it.
    assert result.mu_lower > 0.25 * result.guarantee.mu


def half_the_divisor(patch):
    """In the parts of a sum, which the workers make."""
    clipped_sum = partitions.clipped_sum

    def other(run, gradients, groups=None):
        total = clipped_sum(run, gradients, groups)
        return lambda x, rows: 2.0 * total(x, rows)

    patch.setattr(partitions, "clipped_sum", other)


def counting_the_last(patch, count):
    """The last partition, which has the record that pulls, counts so many times."""
    parts_of = ClusterGradients.partial_sums

    def other(self, x, parts, number):
        parts = list(parts)
        for value, (part, *_) in zip(parts_of(self, x, parts, number), parts, strict=True):
            yield from [value] * (count if part == len(self.ends) - 1 else 1)

    patch.setattr(ClusterGradients, "partial_sums", other)


MISTAKES = [half_the_noise, half_the_divisor, twice_the_sensitivity]
MISTAKES += [lambda patch: counting_the_last(patch, 2)]


@RUNS
@pytest.mark.parametrize("plant", MISTAKES)
def test_mistakes_are_caught(client, monkeypatch, run, plant):
    plant(monkeypatch)
    assert audited(client, run).refuted


def test_noise_that_is_drawn_twice_is_caught(client, monkeypatch):
    """Whoever knows a training on rows that rest has the noise of the others."""
    assert not audited(client, FULL, less=trained(client, FULL, 0.0)).refuted
    monkeypatch.setattr(engine, "randomness_from", lambda state, **_: Fixed(None))
    assert audited(client, FULL, less=trained(client, FULL, 0.0)).refuted


def test_a_partition_that_is_left_out_is_caught_by_the_sum(client, monkeypatch):
    """And one that is counted twice: without noise a sum of integers is exact. An audit of privacy cannot see
    the first."""
    one = {"steps": 1, "step_size": 1.0, "noise_std": 1.0, "gradient_sensitivity": 1.0}
    run = pabi.NoisySGD(pabi.Loss.unknown(), n=40, batches=pabi.FullBatch(), **one)

    def exact_sum():
        with monkeypatch.context() as patch:
            patch.setattr(engine, "noise_factor", lambda run: 0.0)
            return -40.0 * released(client, run, np.arange(1.0, 41.0), 1)[0]

    assert exact_sum() == 820.0
    for count in (0, 2):
        with monkeypatch.context() as patch:
            counting_the_last(patch, count)
            assert exact_sum() != 820.0
            assert count or not audited(client, FULL).refuted


# Chains, whose noise workers draw from keys. Every chain is a release; the guarantee is that of one.

CHAIN = pabi.LangevinChain(
    pabi.Loss.convex(1.0, gradient_bound=1.0),
    n=40,
    inverse_temperature=400.0,
    step_size=1e-3,
    steps=4,
    chains=4_000,
)


def chained(client, pull):
    """The last record pulls, and all others rest."""
    mean = lambda x: np.full_like(x, pull / 40.0)  # noqa: E731
    return langevin(CHAIN, mean, np.zeros(1), client=client).values[:, 0, 0]


def audited_chains(client, *, less=0.0):
    null, other = (chained(client, pull) - less for pull in (-1.0, 1.0))
    promised = replace(CHAIN, chains=1).guarantee(1e-5)
    return audit_outputs(promised, null, other, confidence=SURE)


def test_half_the_noise_of_chains_is_caught(client, monkeypatch):
    result = audited_chains(client)
    assert not result.refuted
    assert result.mu_lower > 0.4 * result.guarantee.mu
    values = chains.Walks.values

    def silent(walks, generator):
        return values(replace(walks, noise_std=0.5 * walks.noise_std), generator)

    monkeypatch.setattr(chains.Walks, "values", silent)
    assert audited_chains(client).refuted


def test_keys_that_are_used_again_are_caught(client, monkeypatch):
    assert not audited_chains(client, less=chained(client, 0.0)).refuted
    monkeypatch.setattr(hiding, "randomness_from", lambda state: Fixed(None))
    assert audited_chains(client, less=chained(client, 0.0)).refuted

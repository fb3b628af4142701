"""Trainings and chains on a cluster are audited through what users call, and planted mistakes are caught.

Each mistake is planted in a shipped function and refuted with confidence 1 − 10⁻⁶; the same audit does not
refute what ships. Every coordinate is a model of its own, so that one training is as many trainings. A
partition that is left out lessens what one record moves, and no audit of privacy sees it: the sum does.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.audits import audit_outputs
from pabi.execute import engine, hiding, sums
from pabi.execute.checkpoint import Randomness
from pabi.integrations.dask import langevin, train
from pabi.integrations.dask import sums as partitions
from pabi.integrations.dask.sums import ClusterGradients
from pabi.sampling import chains
from support.clusters import IN_PROCESS
from support.large import package
from support.wide_runs import LONG, narrow, wide

pytestmark = pytest.mark.filterwarnings(
    "ignore::pabi.PrivacyWarning", "ignore::pabi.SamplingWarning"
)
SURE = 1.0 - 1e-6
MODELS = 20_000
SECONDS = 60.0  # that a mistake may take to be caught
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


def trained(client, run, pull):
    """(MODELS,) what is released where the last record pulls so, and all others rest."""
    table = np.zeros((run.n, 1))
    table[-1] = pull
    X = package("dask.array").from_array(table, chunks=(ROWS, -1))
    return train(
        wide(run, MODELS),
        X,
        np.zeros(run.n),
        client=client,
        per_record_gradients=pulls,
        x0=np.zeros(MODELS),
    ).x


def audited(client, run, *, less=0.0):
    """The audit of two trainings. `less`: what the attacker knows, and subtracts."""
    begin = time.perf_counter()
    null, other = (trained(client, run, pull) - less for pull in (-LONG, LONG))
    result = audit_outputs(run, null, other, confidence=SURE)
    assert time.perf_counter() - begin < SECONDS
    return result


RUNS = pytest.mark.parametrize("run", [FULL, CYCLIC], ids=["full", "cyclic"])


@RUNS
def test_what_ships_is_not_refuted(client, run):
    result = audited(client, run)
    assert not result.refuted
    # Or the audit would see little: .445 in the mean of many, and .03 from it.
    assert result.mu_lower > 0.25 * result.guarantee.mu


# Noise, which this process draws.


@RUNS
def test_half_the_noise_is_caught(client, monkeypatch, run):
    monkeypatch.setattr(engine, "noise_factor", lambda run: 0.5)
    assert audited(client, run).refuted


class Fixed(Randomness):
    """The same noise in every training."""

    def generator(self):
        return np.random.default_rng(7)

    def keys(self, count):
        return [number.to_bytes(32, "little") for number in range(count)]


def test_noise_that_is_drawn_twice_is_caught(client, monkeypatch):
    """Whoever knows a training on rows that rest has the noise of the others."""
    assert not audited(client, FULL, less=trained(client, FULL, 0.0)).refuted
    monkeypatch.setattr(engine, "randomness_from", lambda state, **_: Fixed(None))
    assert audited(client, FULL, less=trained(client, FULL, 0.0)).refuted


# Sums, whose parts the workers make.


def planted(monkeypatch, change):
    """Makes every worker return what `change` makes of its part of a sum."""
    clipped_sum = partitions.clipped_sum

    def other(run, gradients, groups=None):
        total = clipped_sum(run, gradients, groups)
        return lambda x, rows: change(run, total(x, rows))

    monkeypatch.setattr(partitions, "clipped_sum", other)


@RUNS
def test_a_wrong_divisor_is_caught(client, monkeypatch, run):
    """Half of the batch."""
    planted(monkeypatch, lambda run, part: 2.0 * part)
    assert audited(client, run).refuted


@RUNS
def test_twice_the_sensitivity_is_caught(client, monkeypatch, run):
    clip = sums.clip_coordinates
    monkeypatch.setattr(
        sums, "clip_coordinates", lambda g, bound, *rest: clip(g, 2.0 * bound, *rest)
    )
    monkeypatch.setattr(sums, "clip_norms", lambda g, *rest: g)
    assert audited(client, run).refuted


@RUNS
def test_a_partition_that_is_counted_twice_is_caught(client, monkeypatch, run):
    """The one of the record."""
    parts_of = ClusterGradients.partial_sums

    def twice(self, x, parts, number):
        values = list(parts_of(self, x, parts, number))
        last = len(self.ends) - 1
        return [*values, *(v for v, (part, *_) in zip(values, parts, strict=True) if part == last)]

    monkeypatch.setattr(ClusterGradients, "partial_sums", twice)
    assert audited(client, run).refuted


def exact_sum(client):
    """What a step without noise adds up of integers: the sum over all records, if nothing is lost."""
    rows = np.arange(1.0, 41.0)[:, None]
    run = pabi.NoisySGD(
        pabi.Loss.unknown(),
        n=40,
        batches=pabi.FullBatch(),
        steps=1,
        step_size=1.0,
        noise_std=1.0,
        gradient_sensitivity=1.0,
    )
    X = package("dask.array").from_array(rows, chunks=(ROWS, -1))
    given = {"client": client, "per_record_gradients": pulls, "x0": np.zeros(1)}
    return -40.0 * train(run, X, np.zeros(40), **given).x[0]


def test_a_partition_that_is_left_out_is_caught_by_the_sum(client, monkeypatch):
    """And one that is counted twice. An audit of privacy cannot see the first."""
    monkeypatch.setattr(engine, "noise_factor", lambda run: 0.0)
    parts_of = ClusterGradients.partial_sums
    assert exact_sum(client) == 820.0
    for count in (0, 2):

        def other(self, x, parts, number, count=count):
            values = list(parts_of(self, x, parts, number))
            return [*values[:-1], *values[-1:] * count]

        with monkeypatch.context() as patch:
            patch.setattr(ClusterGradients, "partial_sums", other)
            assert exact_sum(client) != 820.0
            if count == 0:
                assert not audited(client, FULL).refuted


# Chains, whose noise workers draw from keys.

STEPS, CHAINS = 4, 4_000
CHAIN = pabi.LangevinChain(
    pabi.Loss.convex(1.0, gradient_bound=1.0),
    n=40,
    inverse_temperature=400.0,
    step_size=1e-3,
    steps=STEPS,
    chains=CHAINS,
)


def pulled(pull):
    """The mean gradient where the last record pulls, and all others rest."""
    return lambda x: np.full_like(x, pull / 40.0)


def audited_chains(client, *, less=0.0):
    """Every chain is a release; the guarantee is that of one."""
    begin = time.perf_counter()
    null, other = (
        langevin(CHAIN, pulled(pull), np.zeros(1), client=client).values[:, 0, 0] - less
        for pull in (-1.0, 1.0)
    )
    one = replace(CHAIN, chains=1)
    result = audit_outputs(one.guarantee(1e-5), null, other, confidence=SURE)
    assert time.perf_counter() - begin < SECONDS
    return result


def resting(client):
    return langevin(CHAIN, pulled(0.0), np.zeros(1), client=client).values[:, 0, 0]


def test_chains_are_not_refuted(client):
    result = audited_chains(client)
    assert not result.refuted
    assert result.mu_lower > 0.4 * result.guarantee.mu


def test_half_the_noise_of_chains_is_caught(client, monkeypatch):
    values = chains.Walks.values

    def silent(walks, generator):
        return values(replace(walks, noise_std=0.5 * walks.noise_std), generator)

    monkeypatch.setattr(chains.Walks, "values", silent)
    assert audited_chains(client).refuted


def test_keys_that_are_used_again_are_caught(client, monkeypatch):
    assert not audited_chains(client, less=resting(client)).refuted
    monkeypatch.setattr(hiding, "randomness_from", lambda state: Fixed(None))
    assert audited_chains(client, less=resting(client)).refuted

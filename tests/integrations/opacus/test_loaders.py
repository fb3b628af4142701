"""Loaders of PyTorch and Opacus as batch schemes: what they draw is counted, not believed."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

import types
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest

import pabi
from pabi import BallsInBins, Cyclic, FullBatch, InvalidInput, Poisson, Reshuffle, ShuffleOnce
from support.every_case import every, refused
from support.frameworks import framework

framework("opacus")
import torch
from opacus.accountants import PRVAccountant
from opacus.data_loader import DPDataLoader
from opacus.utils.batch_memory_manager import BatchSplittingSampler
from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from pabi.integrations.opacus import PabiAccountant, check_loader
from pabi.integrations.opacus.describing import drawn_by, probability_of
from pabi.integrations.torch import BallsInBinsSampler, PoissonSampler, ReshuffleSampler


def numbers(n):
    return TensorDataset(torch.arange(n).reshape(-1, 1))


def poisson(n, batch):
    return DPDataLoader.from_data_loader(DataLoader(numbers(n), batch_size=batch))


def epoch_of(loader):
    return [rows.reshape(-1).tolist() for (rows,) in loader]


# What a loader draws.


@every(
    "n, batch, shuffle, scheme",
    [
        (60, 12, True, Reshuffle(12)),
        (61, 12, True, Reshuffle(12)),
        (61, 12, False, Cyclic(12)),
        (10, 10, True, FullBatch()),
        (10, 99, True, FullBatch()),
    ],
)
def test_lists_are_cut_as_the_scheme_says(n, batch, shuffle, scheme):
    loader = DataLoader(numbers(n), batch_size=batch, shuffle=shuffle)
    drawn = drawn_by(loader)
    assert (drawn.batches, drawn.n) == (scheme, n)
    batches = epoch_of(loader)
    size = scheme.batch_size(n)
    assert len(batches) == drawn.steps == scheme.per_epoch(n)
    assert sorted(chain.from_iterable(batches)) == list(range(n))
    assert [len(b) for b in batches[:-1]] == [size] * (len(batches) - 1)
    assert (batches == epoch_of(loader)) is (not shuffle)


@every("n, batch, spare", [(61, 12, 1), (59, 12, 11), (60, 12, 0), (7, 4, 3)])
def test_what_a_shuffle_leaves_out_is_spare(n, batch, spare):
    """Each record is used in some epochs. What a fixed order leaves out is no record of the run."""
    loader = shuffled(n, batch, drop_last=True)
    drawn = drawn_by(loader)
    assert (drawn.batches, drawn.n) == (Reshuffle(batch, spare), n)
    epochs = [epoch_of(loader) for _ in range(40)]
    assert all(len(epoch) == len(loader) == drawn.steps == n // batch for epoch in epochs)
    assert all([len(b) for b in epoch] == [batch] * len(epoch) for epoch in epochs)
    used = [set(chain.from_iterable(epoch)) for epoch in epochs]
    assert {len(each) for each in used} == {n - spare}
    assert set.union(*used) == set(range(n))
    loader = DataLoader(numbers(n), batch_size=batch, drop_last=True)
    drawn = drawn_by(loader)
    assert (drawn.batches, drawn.n, drawn.steps) == (Cyclic(batch), n - spare, n // batch)
    assert sorted(chain.from_iterable(epoch_of(loader))) == list(range(n - spare))


def test_a_loader_with_a_collate_function_of_its_own_draws_as_others_do():
    class Collating(DataLoader):
        def __init__(self, dataset, size):
            super().__init__(dataset, size, collate_fn=lambda rows: rows)

    assert drawn_by(Collating(numbers(20), 5)).batches == Cyclic(5)


@every("sampler", [BallsInBinsSampler(20, 4, redraw="epoch"), ReshuffleSampler(21, 4, spare=1)])
def test_samplers_of_pabi_are_what_they_say(sampler):
    """Ten records in batches of 4, which are not cut from a list, have no short last batch."""
    drawn = drawn_by(DataLoader(numbers(sampler.n), batch_sampler=sampler))
    assert (drawn.batches, drawn.n, drawn.steps) == (sampler.scheme, sampler.n, 5)
    assert check_loader(of_bins(n=10, size=4), accountant_of(n=10, batches=BallsInBins(4))) == ()
    (finding,) = check_loader(of_bins(redraw="epoch"))
    assert "puts every record into one of the batches, anew in every epoch" in finding.message


@every("n, batch, length", [(60_000, 256, 235), (60, 12, 5), (930, 10, 92)])
def test_poisson_batches(n, batch, length):
    """The last case: ⌊1/(1/93)⌋ is 92 in doubles, and Opacus' accountants are told 1/92."""
    loader = poisson(n, batch)
    drawn = drawn_by(loader)
    assert len(loader) == drawn.steps == length
    assert drawn.n == n
    assert 0.0 <= drawn.batches.probability - 1.0 / length <= 2.0**-24
    assert drawn.batches.probability >= loader.sample_rate


@pytest.mark.parametrize("rate", [1 / 235, 1 / 3, 0.1, 1e-6, 1.0, 0.75, 2.0**-24])
def test_no_number_of_torch_is_below_the_rate_more_often(rate):
    """Every number that torch.rand gives, compared as the sampler compares."""
    draws = torch.rand(10**6, generator=torch.Generator().manual_seed(0)) * 2**24
    assert torch.equal(draws, draws.round())
    given = torch.arange(2**24, dtype=torch.float32) / 2**24
    share = Fraction(int((given < rate).sum()), 2**24)
    assert share <= Fraction(probability_of(rate)) <= share + Fraction(1, 2**24)


def test_doubles_have_finer_numbers():
    torch.set_default_dtype(torch.float64)
    try:
        assert 0.0 <= probability_of(1 / 3) - 1 / 3 <= 2.0**-52
    finally:
        torch.set_default_dtype(torch.float32)


def test_samplers_say_their_scheme():
    once = types.SimpleNamespace(scheme=ShuffleOnce(5))
    loader = DataLoader(numbers(20), batch_sampler=[[0]])
    loader.__dict__["batch_sampler"] = once
    assert drawn_by(loader).batches == ShuffleOnce(5)
    assert drawn_by(loader).steps == 4
    once.n = 19
    with pytest.raises(InvalidInput, match="a sampler of 19 of 20 records"):
        drawn_by(loader)


class _Stream(IterableDataset):
    def __iter__(self):
        return iter([])


def _split():
    batches = BatchSampler(SequentialSampler(range(20)), 5, False)
    return BatchSplittingSampler(sampler=batches, max_batch_size=2, optimizer=None)


def of_20(**settings):
    return DataLoader(numbers(20), **{"batch_size": 5, **settings})


def of_batches(sampler):
    return DataLoader(numbers(20), batch_sampler=sampler)


def drawn(sampler, **settings):
    return of_20(sampler=sampler(range(20), **settings))


def left_out():
    return shuffled(61, 12, drop_last=True)


def replaced():
    return drawn(RandomSampler, replacement=True)


def repeated(n=60):
    return DataLoader(Subset(numbers(n), [0, *range(n - 1)]), 12, shuffle=True)


def of_a_worker():
    return of_batches(object.__new__(DistributedUniformWithReplacementSampler))


class Halved(DataLoader):
    def __iter__(self):
        return iter(list(super().__iter__())[::2])


REFUSED = [
    (lambda: Halved(numbers(20), 5, shuffle=True), "those of a Halved with a __iter__ of its own"),
    (lambda: [1], "expected a torch.utils.data.DataLoader, got a list"),
    (lambda: DataLoader(_Stream(), batch_size=2), "an IterableDataset"),
    (lambda: of_20(batch_size=21, drop_last=True), "20 records are fewer than 21"),
    (lambda: of_20(batch_size=21, drop_last=True, shuffle=True), "20 records are fewer than 21"),
    (replaced, "drawn with replacement"),
    (lambda: drawn(RandomSampler, num_samples=10), "a sampler of 10 of 20 records"),
    (lambda: of_20(sampler=WeightedRandomSampler([1.0] * 20, 20)), "WeightedRandomSampler"),
    (lambda: drawn(SubsetRandomSampler), "SubsetRandomSampler"),
    (lambda: of_20(batch_size=None), "no batches"),
    (lambda: of_batches([[0, 1]]), "those of a list"),
    (lambda: of_batches(PoissonSampler(20, 5)), "PoissonSampler: let make_private draw them"),
    (lambda: of_batches(_split()), "BatchMemoryManager"),
    (lambda: of_20(sampler=PoissonSampler(20, 5)), "in the order of a PoissonSampler"),
    (lambda: of_20(sampler=ReshuffleSampler(20, 5)), "in the order of a ReshuffleSampler"),
    (lambda: repeated(20), "some records several times"),
    (of_a_worker, "one worker's share"),
]


@every("make, reason", REFUSED)
def test_loaders_without_a_scheme(make, reason):
    assert reason in refused("loader", drawn_by, make())


# What is found.


def accountant_of(**changes):
    fields = {"n": 60, "batches": Reshuffle(12), "steps": 5, "step_size": 0.5, **changes}
    accountant = PabiAccountant()
    noise = {"clip_norm": 1.0, "noise_multiplier": 1.0}
    accountant.describe(pabi.NoisySGD(pabi.Loss.unknown(), **fields, **noise))
    return accountant


def of_bins(n=60, size=7, **settings):
    return DataLoader(numbers(n), batch_sampler=BallsInBinsSampler(n, size, **settings))


def shuffled(n=60, batch=12, **settings):
    return DataLoader(numbers(n), batch_size=batch, shuffle=True, **settings)


def test_the_most_common_error():
    """A loader that shuffles, accounted as Poisson."""
    for accountant in (None, PRVAccountant()):
        (finding,) = check_loader(shuffled(), accountant)
        assert (finding.subject, finding.severity) == ("sampling", "wrong")
        assert "shuffles the records every epoch" in finding.message
        assert "charges for Poisson sampling" in finding.message
        with pytest.raises(InvalidInput, match="sampling"):
            check_loader(shuffled(), accountant, strict=True)
    assert '"prv"' in str(check_loader(shuffled(), PRVAccountant()))


def test_nothing_is_found_where_all_is_right():
    assert check_loader(poisson(60, 12)) == ()
    assert check_loader(poisson(60, 12), PRVAccountant(), strict=True) == ()
    assert check_loader(shuffled(), accountant_of(), strict=True) == ()
    drawn = drawn_by(poisson(60, 12)).batches
    assert check_loader(poisson(60, 12), accountant_of(batches=drawn)) == ()
    assert check_loader(poisson(60, 12), accountant_of(batches=Poisson(12))) == ()
    assert "as they are accounted" in str(check_loader(poisson(60, 12)))


def in_order():
    return DataLoader(numbers(61), batch_size=12, drop_last=True)


def of(**changes):
    return lambda: accountant_of(**changes)


def sixty():
    return poisson(60, 12)


AFRESH = {"redraw": "epoch"}
SAMPLING, DROPPED = ("sampling", "wrong"), ("drop_last", "note")
FOUND = [
    (sixty, accountant_of, SAMPLING),
    (lambda: shuffled(batch=10), accountant_of, SAMPLING),
    (shuffled, of(n=72), ("run", "wrong")),
    (sixty, of(batches=Poisson(12, probability=0.1)), SAMPLING),
    (shuffled, PabiAccountant, ("run", "unknown")),
    (left_out, of(n=61, batches=Reshuffle(12, 1)), DROPPED),
    (left_out, of(n=61, steps=6), SAMPLING, DROPPED),
    (left_out, PRVAccountant, SAMPLING, DROPPED),
    (lambda: shuffled(drop_last=True), accountant_of, DROPPED),
    (lambda: of_bins(**AFRESH), of(batches=BallsInBins(7)), SAMPLING),
    (lambda: of_bins(**AFRESH), PRVAccountant, SAMPLING),
    (replaced, PRVAccountant, ("sampler", "wrong")),
    (of_a_worker, PRVAccountant, ("sampler", "unknown")),
    (repeated, accountant_of, ("records", "wrong")),
    (lambda: shuffled(n=61), of(n=61, steps=6), ("last batch", "note")),
    (in_order, of(batches=Cyclic(12)), DROPPED),
    (lambda: poisson(930, 10), PRVAccountant, ("probability", "note")),
]


@every("case", FOUND)
def test_findings(case):
    make, accountant, *expected = case
    findings = check_loader(make(), accountant())
    assert [(found.subject, found.severity) for found in findings] == expected
    assert str(findings).count("\n") == len(expected) - 1
    if {severity for _, severity in expected} == {"note"}:
        assert check_loader(make(), accountant(), strict=True) == findings


@every(
    "n, batch, message",
    [
        (61, 12, "1 of 61 records are in no batch of an epoch, others every epoch: the run has 61"),
        (60, 12, "batches of 12 leave none of 60 records out, and batches of 13 would leave some"),
        (12, 3, "batches of 5 would leave some"),
        (2, 1, None),
    ],
)
def test_what_is_left_out_is_said(n, batch, message):
    found = [f.message for f in check_loader(shuffled(n, batch, drop_last=True))][1:]
    assert found == [] if message is None else message in found[0]
    # Nobody who wants the short batch is told to drop it.
    assert "drop_last" not in str(check_loader(shuffled(n, batch)))


def test_nothing_of_the_records_is_looked_at():
    class Untouched(TensorDataset):
        def __getitem__(self, index):
            raise AssertionError("a record was read")

    rows = Untouched(torch.from_numpy(np.zeros((60, 2))))
    assert len(check_loader(DataLoader(rows, batch_size=12, shuffle=True))) == 1

"""Samplers draw what the schemes say: every order alike, once, in secret, and nothing is dropped."""

import copy
import itertools
import json
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import pabi
from pabi.execute.batches import batch_rows
from pabi.integrations.torch import (
    BallsInBinsSampler,
    PoissonSampler,
    ReshuffleSampler,
    ShuffleOnceSampler,
    collate,
    collate_like,
)
from support.every_case import every, refused
from support.frameworks import framework

OF = {
    pabi.ShuffleOnce: ShuffleOnceSampler,
    pabi.Reshuffle: ReshuffleSampler,
    pabi.BallsInBins: BallsInBinsSampler,
    pabi.Poisson: PoissonSampler,
}
SCHEMES = [
    *((kind, {}) for kind in OF),
    *((pabi.BallsInBins, {"cap": cap, "redraw": "epoch"}) for cap in (None, 5)),
    *((kind, {"cap": 5}) for kind in (pabi.BallsInBins, pabi.Poisson)),
    *((pabi.ShuffleOnce, {"spare": 3}), (pabi.Reshuffle, {"spare": 2})),
]


@every("kind, options", SCHEMES)
def test_batches_are_those_that_train_would_use(kind, options):
    """Drawn by the very code: from the same generator come the same ones, epoch for epoch."""
    own, scheme = OF[kind](10, 4, **options, random_state=3), kind(4, **options)
    given = {"step_size": 1.0, "noise_std": 1.0, "clip_norm": 1.0}
    described = pabi.NoisySGD(pabi.Loss.unknown(), 10, scheme, 3, **given)
    order = batch_rows(described, np.random.default_rng(3))
    drawn = (order.batch(k) for k in range(described.steps))
    wanted = [[] if rows is None else np.arange(10)[rows].tolist() for rows in drawn]
    assert [batch for _ in range(3) for batch in own] == wanted
    assert (own.scheme, own.n, own.size, own.secret) == (scheme, 10, 4, False)
    assert len(own) == len(list(own)) == scheme.per_epoch(10)
    unseeded = [OF[kind](10, 4, **options) for _ in range(20)]
    assert all(one.secret for one in unseeded)
    assert len({str(list(one)) for one in unseeded}) > 1


def test_a_secret_order_is_not_shown_copied_or_stored():
    sampler = ShuffleOnceSampler(10, 4)
    assert repr(sampler) == f"ShuffleOnceSampler(n=10, scheme={pabi.ShuffleOnce(4)!r})"
    for store in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(pabi.InvalidInput, match="secret"):
            store(sampler)


def test_arguments_are_refused_by_name():
    refused("n", ShuffleOnceSampler, 0, 1)
    refused("random_state", ShuffleOnceSampler, 3, 2, random_state="seed")
    for sampler, size in ((ShuffleOnceSampler, 4), (ReshuffleSampler, 4)):
        refused("size", sampler, 3, size)
        refused("spare", sampler, 10, 4, spare=-1)
        refused("size", sampler, 10, 4, spare=7)
    for sampler in (BallsInBinsSampler, PoissonSampler):
        refused("size", sampler, 3, 0)
        refused("cap", sampler, 10, 4, cap=3)
    refused("redraw", BallsInBinsSampler, 10, 4, redraw="step")


def test_a_loader_takes_them_empty_batches_included():
    torch = framework("torch")
    dataset = torch.utils.data.TensorDataset(torch.arange(4.0), torch.arange(4))
    seen = set()
    for _ in range(60):
        sampler = BallsInBinsSampler(4, 1)
        loader = torch.utils.data.DataLoader(dataset, batch_sampler=sampler, collate_fn=collate)
        batches = list(loader)
        assert len(batches) == len(loader) == 4
        rows = [[] if batch is None else batch[1].tolist() for batch in batches]
        assert rows == list(sampler)
        seen |= {len(batch) for batch in rows}
    assert {0, 1, 2} <= seen


RESUMED = [
    *((ShuffleOnceSampler, 20, {"spare": spare}) for spare in (0, 3)),
    *((ReshuffleSampler, 20 + spare, {"spare": spare}) for spare in (0, 1)),
    *((BallsInBinsSampler, 20, given) for given in ({}, {"cap": 5, "redraw": "epoch"})),
]


@every("kind, n, given", RESUMED)
@every("used", range(6))
def test_an_epoch_goes_on_where_it_was(kind, n, given, used):
    """To the last record: through a state on a disk, however many batches were asked for before."""
    before, after = (kind(n, 4, **given) for _ in range(2))
    list(before)
    epoch = list(before)
    after.load_state_dict(json.loads(json.dumps(before.state_dict(used=used))))
    assert after.state_dict()["used"] == used % 5
    rest, once = list(after), before.scheme.order(before.n, 1).once
    assert len(after) == len(before) == 5
    if used in (0, 5):  # a whole epoch
        assert (rest == epoch) is once
        rest, used = list(after), 0
    else:
        assert epoch[:used] + rest == epoch
    assert (list(after) == epoch) is once


def test_a_state_holds_no_more_than_is_needed():
    """No order that was never used, nor one that is used up."""
    sampler = BallsInBinsSampler(20, 4, redraw="epoch")
    kind = {"kind": "balls_in_bins", "size": 4, "redraw": "epoch"}
    new = {"batches": kind, "n": 20, "order": None, "secret": True, "used": 0}
    assert sampler.state_dict() == new
    asked = iter(sampler)
    next(asked)
    assert sampler.state_dict()["used"] == 1
    assert len(sampler.state_dict()["order"]) == 20
    list(asked)
    assert sampler.state_dict()["order"] is sampler.state_dict(used=0)["order"] is None
    once = ShuffleOnceSampler(20, 4)
    assert once.state_dict()["order"] is None
    list(once)
    assert sorted(once.state_dict()["order"]) == list(range(20))
    poisson, after = PoissonSampler(20, 4), PoissonSampler(20, 4)
    next(iter(poisson))
    after.load_state_dict(poisson.state_dict())
    assert poisson.state_dict()["order"] is None
    assert len(list(after)) == 4


def test_a_sampler_remembers_that_it_was_seeded():
    sampler, other = ReshuffleSampler(9, 3, random_state=1), ReshuffleSampler(9, 3)
    next(iter(sampler))
    other.load_state_dict(sampler.state_dict())
    assert not other.secret
    assert not other.state_dict()["secret"]


FIRST = ReshuffleSampler(9, 3).state_dict()
GOOD = {**FIRST, "order": list(range(9)), "used": 1}
SPOILT = [
    *({**GOOD, "order": order} for order in (None, [0] * 9, [0, 1], "012345678", [0.0] * 9)),
    {**GOOD, "order": [2**80, *range(1, 9)]},
    *({**GOOD, "used": used} for used in (-1, 3, 1.0, True, None, 0)),
    {**GOOD, "n": 10},
    {**GOOD, "batches": ShuffleOnceSampler(9, 3).state_dict()["batches"]},
    {**GOOD, "batches": ReshuffleSampler(9, 3, spare=1).state_dict()["batches"]},
    {**GOOD, "more": 0},
    {name: value for name, value in GOOD.items() if name != "order"},
    *({}, None, []),
]


@every("state", SPOILT)
def test_states_of_something_else_are_refused_and_change_nothing(state):
    sampler = ReshuffleSampler(9, 3)
    sampler.load_state_dict(GOOD)
    asked = iter(sampler)
    assert next(asked) == [3, 4, 5]
    refused("state_dict", sampler.load_state_dict, state)
    assert list(asked) == [[6, 7, 8]]
    refused("used", sampler.state_dict, 4)


def test_a_pass_ends_where_another_one_begins():
    """The order of a new epoch would take the place of the old one's in its middle."""
    sampler = BallsInBinsSampler(9, 3, redraw="epoch")
    first, second = iter(sampler), iter(sampler)
    next(first)
    next(second)
    with pytest.raises(pabi.InvalidInput, match="one pass at a time"):
        next(first)
    assert len(list(second)) == 2


@every("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_a_loader_with_workers_has_every_record_once_an_epoch(workers):
    """A loop that stops within an epoch goes on with what it had not used, though workers had more."""
    torch = framework("torch")
    dataset = torch.utils.data.TensorDataset(torch.arange(30))
    made = {"dataset": dataset, "collate_fn": collate_like(dataset[0])}

    def batches_of(loader, count=None):
        return [rows.tolist() for (rows,) in itertools.islice(loader, count)]

    sampler = BallsInBinsSampler(30, 2, redraw="epoch")
    by = {"num_workers": workers, "persistent_workers": workers > 0}
    loader = torch.utils.data.DataLoader(**made, batch_sampler=sampler, **by)
    epochs = [batches_of(loader) for _ in range(3)]
    assert all(len(epoch) == len(loader) == 15 for epoch in epochs)
    assert all(sorted(itertools.chain(*epoch)) == list(range(30)) for epoch in epochs)
    assert all(one != other for one, other in itertools.combinations(epochs, 2))
    used = batches_of(loader, 4)
    state = sampler.state_dict(used=len(used))
    assert state["used"] == 4 <= sampler.state_dict()["used"] <= 4 + 2 * workers
    other = BallsInBinsSampler(30, 2, redraw="epoch")
    other.load_state_dict(state)
    rest = batches_of(torch.utils.data.DataLoader(**made, batch_sampler=other))
    assert len(rest) == 11
    assert sorted(itertools.chain(*used, *rest)) == list(range(30))


class Named(NamedTuple):
    row: Any
    label: int


def test_an_empty_batch_has_the_form_of_others():
    torch = framework("torch")
    row = torch.ones(2, 3, dtype=torch.float64)
    example = {"x": (row, 1), "y": Named(row, 2), "name": "text", "z": [0.5, np.float32(2)]}
    make = pickle.loads(pickle.dumps(collate_like(example)))  # as spawned workers do
    full, empty = make([example, example]), make([])
    assert (full["x"][0].shape, empty["x"][0].shape) == ((2, 2, 3), (0, 2, 3))
    assert empty["x"][0].dtype == torch.float64
    assert (empty["x"][1].shape, empty["x"][1].dtype) == ((0,), full["x"][1].dtype)
    assert isinstance(empty["y"], Named)
    assert empty["y"].row.shape == (0, 2, 3)
    assert (full["name"], empty["name"]) == (["text", "text"], [])
    assert [part.shape for part in empty["z"]] == [(0,), (0,)]
    assert collate([]) is None

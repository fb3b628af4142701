"""Samplers draw what the schemes say: every order alike, once, in secret, and nothing is dropped."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest

import pabi
from pabi.integrations.torch import (
    BallsInBinsSampler,
    PoissonSampler,
    ReshuffleSampler,
    ShuffleOnceSampler,
    collate,
)
from support.every_case import every, refused
from support.frameworks import framework

DRAWS = 2_400


def within(count: int, probability: float) -> bool:
    """Five standard errors, and one for the integer."""
    spread = math.sqrt(DRAWS * probability * (1 - probability))
    return abs(count - DRAWS * probability) < 5 * spread + 1


def permutation_of(sampler: Any) -> tuple[int, ...]:
    return tuple(itertools.chain(*sampler))


def bins() -> Any:
    batches = enumerate(BallsInBinsSampler(3, 2))
    return tuple(sorted((i, j) for j, batch in batches for i in batch))


def two_epochs() -> Any:
    sampler = ReshuffleSampler(2, 1)
    return permutation_of(sampler), permutation_of(sampler)


@every(
    "drawn, outcomes",
    [(lambda: permutation_of(ShuffleOnceSampler(3, 2)), 6), (bins, 2**3), (two_epochs, 4)],
)
def test_every_outcome_is_as_likely(drawn, outcomes):
    """Permutations, the bin of every record by itself, and the permutation of every epoch."""
    counts = Counter(drawn() for _ in range(DRAWS))
    assert len(counts) == outcomes
    assert all(within(count, 1 / outcomes) for count in counts.values())


def test_every_poisson_batch_is_drawn_by_itself():
    """Each of the 2³ subsets in each of the two batches, all 64 pairs of them."""
    counts = Counter(
        tuple(tuple(sorted(batch)) for batch in PoissonSampler(3, 2)) for _ in range(DRAWS)
    )
    subsets = [c for k in range(4) for c in itertools.combinations(range(3), k)]
    share = {c: (2 / 3) ** len(c) * (1 / 3) ** (3 - len(c)) for c in subsets}
    for one, other in itertools.product(subsets, repeat=2):
        assert within(counts[one, other], share[one] * share[other])


def test_a_poisson_batch_beyond_the_cap_is_empty():
    sampler = PoissonSampler(3, 2, cap=2)
    counts = Counter(len(batch) for _ in range(DRAWS // 2) for batch in sampler)
    assert set(counts) == {0, 1, 2}
    assert within(counts[0], (1 / 3) ** 3 + (2 / 3) ** 3)


SCHEMES = [
    (lambda: ShuffleOnceSampler(10, 4), pabi.ShuffleOnce(4)),
    (lambda: ReshuffleSampler(10, 4), pabi.Reshuffle(4)),
    (lambda: BallsInBinsSampler(10, 4), pabi.BallsInBins(4)),
    (lambda: BallsInBinsSampler(10, 4, cap=5), pabi.BallsInBins(4, cap=5)),
    (lambda: PoissonSampler(10, 4), pabi.Poisson(4)),
    (lambda: PoissonSampler(10, 4, cap=5), pabi.Poisson(4, cap=5)),
]


@every("sampler, scheme", SCHEMES)
def test_an_epoch_is_that_of_the_scheme(sampler, scheme):
    pairs = []
    for _ in range(20):
        own = sampler()
        assert (own.scheme, own.n, own.size, own.secret) == (scheme, 10, 4, True)
        pairs.append((list(own), list(own)))
        assert len(own) == len(pairs[-1][0]) == scheme.per_epoch(10)
    epochs = list(itertools.chain(*pairs))
    assert all(len(set(batch)) == len(batch) for epoch in epochs for batch in epoch)
    sizes = {len(batch) for epoch in epochs for batch in epoch}
    rows = [sorted(itertools.chain(*epoch)) for epoch in epochs]
    cap = getattr(scheme, "cap", None)
    if isinstance(scheme, pabi.ShuffleOnce | pabi.Reshuffle):  # the short batch is not dropped
        assert all([len(batch) for batch in epoch] == [4, 4, 2] for epoch in epochs)
    if isinstance(scheme, pabi.Poisson):
        assert len(sizes) > 2
    elif cap is None:
        assert all(each == list(range(10)) for each in rows)
    assert max(sizes) <= (cap or 10)
    assert all(len(set(each)) == len(each) for each in rows) or isinstance(scheme, pabi.Poisson)
    afresh = isinstance(scheme, pabi.Reshuffle | pabi.Poisson)
    assert any(one != other for one, other in pairs) is afresh


def test_the_order_is_the_one_that_train_would_use():
    """Drawn by the very code: from the same generator come the same batches."""
    with pytest.warns(pabi.PrivacyWarning, match="random_state"):
        sampler = ShuffleOnceSampler(10, 4, random_state=3)
    order = np.random.default_rng(3).permutation(10)
    assert list(sampler) == [order[:4].tolist(), order[4:8].tolist(), order[8:].tolist()]
    assert not sampler.secret


def test_a_secret_order_is_not_shown_copied_or_stored():
    sampler = ShuffleOnceSampler(10, 4)
    assert repr(sampler) == "ShuffleOnceSampler(n=10, scheme=ShuffleOnce(size=4))"
    for store in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(pabi.InvalidInput, match="secret"):
            store(sampler)


def test_arguments_are_refused_by_name():
    refused("n", ShuffleOnceSampler, 0, 1)
    refused("random_state", ShuffleOnceSampler, 3, 2, random_state="seed")
    for sampler, size in (
        (ShuffleOnceSampler, 4),
        (BallsInBinsSampler, 0),
        (ReshuffleSampler, 4),
        (PoissonSampler, 0),
    ):
        refused("size", sampler, 3, size)
    for sampler in (BallsInBinsSampler, PoissonSampler):
        refused("cap", sampler, 10, 4, cap=3)


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


@every("sampler", [ShuffleOnceSampler, ReshuffleSampler])
@pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
def test_a_loop_of_ones_own_takes_the_steps_of_train(sampler):
    """Means over batches as the scheme says, divided by `size`: the iterate of `pabi.learn.train` with the
    same orders and hardly any noise. The noise that it draws between two orders is drawn here, too. A
    cool-down is steps of noise alone, at the end."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, 3)), rng.normal(size=10)
    generator = np.random.default_rng(5)
    drawn = sampler(10, 4, random_state=generator)
    loss = pabi.Loss.squared(10.0, 100.0, l2=0.3)
    described = pabi.NoisySGD(
        loss, 10, drawn.scheme, 2, cooldown_steps=2, step_size=0.1, noise_std=1e-5
    )
    gradients = pabi.learn.SquaredGradients(X, y, 100.0)
    truth = pabi.learn.train(described, gradients, np.zeros(3), 5).x
    theta = np.zeros(3)
    for rows in itertools.chain(drawn, drawn, [[], []]):
        mean = X[rows].T @ (X[rows] @ theta - y[rows]) / drawn.size
        theta = theta - 0.1 * (mean + 0.3 * theta + 1e-5 * generator.standard_normal(3))
    np.testing.assert_allclose(theta, truth, rtol=0, atol=1e-9)

"""Samplers draw what the schemes say: every order alike, once, in secret, and nothing is dropped."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections import Counter

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
from support.frameworks import framework

DRAWS = 2_400


def within(count: int, probability: float) -> bool:
    """Five standard errors, and one for the integer."""
    spread = math.sqrt(DRAWS * probability * (1 - probability))
    return abs(count - DRAWS * probability) < 5 * spread + 1


def test_every_permutation_is_as_likely():
    counts = Counter(tuple(itertools.chain(*ShuffleOnceSampler(3, 2))) for _ in range(DRAWS))
    assert len(counts) == 6
    assert all(within(count, 1 / 6) for count in counts.values())


def test_every_record_falls_into_every_bin_by_itself():
    counts = Counter(
        tuple(sorted((i, j) for j, batch in enumerate(BallsInBinsSampler(3, 2)) for i in batch))
        for _ in range(DRAWS)
    )
    assert len(counts) == 2**3
    assert all(within(count, 1 / 8) for count in counts.values())


def test_every_epoch_of_a_reshuffle_has_a_permutation_of_its_own():
    counts = Counter()
    for _ in range(DRAWS):
        sampler = ReshuffleSampler(2, 1)
        counts[tuple(tuple(itertools.chain(*sampler)) for _ in range(2))] += 1
    assert len(counts) == 4
    assert all(within(count, 1 / 4) for count in counts.values())


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


@pytest.mark.parametrize(
    ("sampler", "scheme"),
    [
        (lambda: ReshuffleSampler(10, 4), pabi.Reshuffle(4)),
        (lambda: PoissonSampler(10, 4), pabi.Poisson(4)),
        (lambda: PoissonSampler(10, 4, cap=5), pabi.Poisson(4, cap=5)),
    ],
)
def test_what_is_drawn_anew_is_of_the_scheme(sampler, scheme):
    epochs = []
    for _ in range(20):
        own = sampler()
        assert (own.scheme, own.n, own.size, own.secret) == (scheme, 10, 4, True)
        first, second = list(own), list(own)
        assert len(first) == len(own) == scheme.per_epoch(10) == 3
        epochs += [first, second]
    if isinstance(scheme, pabi.Reshuffle):
        for epoch in epochs:
            assert [len(batch) for batch in epoch] == [4, 4, 2], "the short batch is not dropped"
            assert sorted(itertools.chain(*epoch)) == list(range(10))
    else:
        sizes = {len(batch) for epoch in epochs for batch in epoch}
        assert max(sizes) <= (scheme.cap or 10)
        assert len(sizes) > 2
    assert all(len(set(batch)) == len(batch) for epoch in epochs for batch in epoch)
    assert any(one != other for one, other in zip(epochs[::2], epochs[1::2], strict=True))


@pytest.mark.parametrize(
    ("sampler", "scheme"),
    [
        (lambda: ShuffleOnceSampler(10, 4), pabi.ShuffleOnce(4)),
        (lambda: BallsInBinsSampler(10, 4), pabi.BallsInBins(4)),
        (lambda: BallsInBinsSampler(10, 4, cap=5), pabi.BallsInBins(4, cap=5)),
    ],
)
def test_an_epoch_is_that_of_the_scheme(sampler, scheme):
    for _ in range(20):
        own = sampler()
        first = list(own)
        assert (own.scheme, own.n, own.size, own.secret) == (scheme, 10, 4, True)
        assert len(first) == len(own) == scheme.per_epoch(10)
        assert list(own) == first, "the same in every epoch"
        rows = sorted(itertools.chain(*first))
        if isinstance(scheme, pabi.ShuffleOnce):
            assert [len(batch) for batch in first] == [4, 4, 2], "the short batch is not dropped"
        if getattr(scheme, "cap", None) is None:
            assert rows == list(range(10))
        else:
            assert all(len(batch) <= 5 for batch in first)
            assert len(set(rows)) == len(rows)


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
    cases = {
        "size": [
            lambda: ShuffleOnceSampler(3, 4),
            lambda: BallsInBinsSampler(3, 0),
            lambda: ReshuffleSampler(3, 4),
            lambda: PoissonSampler(3, 0),
        ],
        "n": [lambda: ShuffleOnceSampler(0, 1)],
        "cap": [lambda: BallsInBinsSampler(10, 4, cap=3), lambda: PoissonSampler(10, 4, cap=3)],
        "random_state": [lambda: ShuffleOnceSampler(3, 2, random_state="seed")],
    }
    for field, several in cases.items():
        for sampler in several:
            with pytest.raises(pabi.InvalidInput) as caught:
                sampler()
            assert caught.value.field == field


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


@pytest.mark.parametrize(
    "sampler",
    [
        lambda state: ShuffleOnceSampler(10, 4, random_state=state),
        lambda state: ReshuffleSampler(10, 4, random_state=state),
    ],
)
@pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
def test_a_loop_of_ones_own_takes_the_steps_of_train(sampler):
    """Means over batches as the scheme says, divided by `size`: the iterate of `pabi.learn.train` with the
    same orders and hardly any noise. The noise that it draws between two orders is drawn here, too. A
    cool-down is steps of noise alone, at the end."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, 3)), rng.normal(size=10)
    generator = np.random.default_rng(5)
    drawn = sampler(generator)
    described = pabi.NoisySGD(
        pabi.Loss.squared(10.0, 100.0, l2=0.3),
        n=10,
        batches=drawn.scheme,
        epochs=2,
        cooldown_steps=2,
        step_size=0.1,
        noise_std=1e-5,
    )
    gradients = pabi.learn.SquaredGradients(X, y, 100.0)
    truth = pabi.learn.train(described, gradients, np.zeros(3), 5).x
    theta = np.zeros(3)
    for _ in range(2):
        for rows in drawn:
            mean = X[rows].T @ (X[rows] @ theta - y[rows]) / drawn.size
            noise = 1e-5 * generator.standard_normal(3)
            theta = theta - 0.1 * (mean + 0.3 * theta + noise)
    for _ in range(2):
        theta = theta - 0.1 * (0.3 * theta + 1e-5 * generator.standard_normal(3))
    np.testing.assert_allclose(theta, truth, rtol=0, atol=1e-9)

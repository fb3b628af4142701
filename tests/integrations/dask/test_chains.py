"""Chains and exact draws on a cluster are those that the same keys give on this machine."""

import logging
import threading
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi import sampling
from pabi.execute.checkpoint import Randomness, keyed_generator
from pabi.execute.hiding import Machines
from pabi.integrations.dask import diffusion, gibbs_rejection, langevin
from pabi.integrations.dask.tasks import Answer, Cluster, trusted
from pabi.numbers.errors import BudgetExceeded, InvalidInput
from pabi.sampling.draws import drawn
from pabi.tradeoff.guarantee import TESTING
from support.clusters import assert_forgotten
from support.every_case import every

SECRET, SEED = 4321.125, 3
N = 200
X = np.random.default_rng(0).uniform(-0.5, 0.5, (N, 3))
Y = np.where(X[:, 0] > 0.0, 1, -1)
LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.1)
CHAIN = pabi.LangevinChain(
    LOSS, n=N, inverse_temperature=N, step_size=1e-3, steps=20, chains=5, prox=pabi.prox.ball(4.0)
)
STARTS = np.random.default_rng(1).normal(size=(5, 3))
# Of five chains on the two threads of the cluster, with the keys that follow from the seed.
PARTS = list(zip([range(2), range(2, 5)], Randomness(SEED).keys(2), strict=True))


def gradient(size=None):
    return sampling.mean_gradient(X, Y, LOSS, size=size)


def by_part(draw):
    """The draws of each part on this machine: `draw(part, generator)`."""
    return [draw(some, keyed_generator(key)).values for some, key in PARTS]


def assert_same(draws, parts):
    values = np.concatenate(parts)
    assert np.max(np.abs(draws.values - values)) <= 1e-12 * np.max(np.abs(values))


@every("changes", [{}, {"release": "path"}, {"batches": pabi.Cyclic(50), "prox": None}])
def test_chains_are_those_of_their_keys(client, changes):
    chain, thin = replace(CHAIN, **changes), 4 if "release" in changes else 1
    own = gradient(50 if "batches" in changes else None)

    def alone(some, generator):
        shorter = replace(chain, chains=len(some))
        return sampling.langevin(shorter, own, STARTS[some.start : some.stop], thin, generator)

    assert_same(langevin(chain, own, STARTS, thin, SEED, client=client), by_part(alone))


@every("beta", [20.0, lambda t: 20.0 * t])
def test_fine_steps_are_those_of_their_keys(client, beta):
    described = pabi.LangevinDiffusion(LOSS, N, beta, time=0.5, diameter=8.0)
    given = {"domain": pabi.prox.ball(4.0), "steps": 10}

    def drawn(draw, starts, count, state, **where):
        settings = {"chains": count, "random_state": state, **given, **where}
        return draw(described, gradient(), starts, **settings)

    def alone(some, generator):
        starts = STARTS[some.start : some.stop]
        return drawn(sampling.diffusion, starts, len(some), generator)

    assert_same(drawn(diffusion, STARTS, 5, SEED, client=client), by_part(alone))


@every(
    "mechanism",
    [
        pabi.ExponentialMechanism(LOSS, n=N, dimension=3, diameter=4.0, epsilon=1.0),
        pabi.IteratedExponentialMechanism(LOSS, N, 3, 2.0, (0.3, 0.7), 0.1),
    ],
)
def test_exact_draws_are_those_of_their_keys(client, mechanism):
    value = sampling.mean_loss(X, Y, LOSS)

    def alone(some, generator):
        return sampling.gibbs_rejection(mechanism, value, random_state=generator, draws=len(some))

    draws = gibbs_rejection(mechanism, value, random_state=SEED, client=client, draws=5)
    assert np.array_equal(draws.values, np.concatenate(by_part(alone), axis=1))


def test_the_guarantee_is_that_of_the_chains_with_an_assumption_more(client):
    draws = langevin(CHAIN, gradient(), np.zeros(3), client=client)
    there = trusted("records, noise and hidden iterates")
    assert draws.values.shape == (5, 1, 3)
    assert draws.guarantee.curve == draws.chain.guarantee(1e-5).curve
    assert draws.guarantee.epsilon(1e-5) <= CHAIN.guarantee(1e-5).epsilon(1e-5)
    assert set(draws.guarantee.assumptions) == {*draws.chain.assumptions, there}
    seeded = langevin(CHAIN, gradient(), np.zeros(3), 1, SEED, client=client)
    assert TESTING in seeded.guarantee.assumptions


def test_every_chain_and_every_call_has_noise_of_its_own(client):
    values = [langevin(CHAIN, np.zeros_like, np.zeros(3), client=client).values for _ in range(2)]
    assert len(np.unique(values)) == 2 * 5 * 3


@every("count", [1, 2, 3, 7])
def test_every_draw_is_in_one_part(count):
    """As many parts as there are threads, or draws."""
    seen = []

    class Numbers(list):
        def part(self, some):
            return Numbers(some)

        def values(self, generator):
            seen.append(generator.random())
            return np.array(self)

    class InTurn(Machines):
        assumed, together = (), 3

        def results(self, function, parts):
            return map(function, parts)

    values = drawn(Numbers(range(count)), Randomness(None), InTurn())
    assert np.array_equal(values, np.arange(count))
    assert len(seen) == len(set(seen)) == min(count, 3)


def test_one_reservation_is_made_before_anything_is_asked(client, tmp_path, monkeypatch):
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", epsilon=8.0, delta=1e-3)
    langevin(CHAIN, gradient(), np.zeros(3), client=client, ledger=ledger)
    assert len(ledger.report().entries) == 1
    monkeypatch.setattr(Cluster, "results", None)
    with pytest.raises(BudgetExceeded):
        langevin(replace(CHAIN, chains=500), gradient(), np.zeros(3), client=client, ledger=ledger)


def test_only_the_release_comes_back(client, monkeypatch):
    answers = []
    value = Cluster._value

    def seen(self, future, place):
        answers.append(value(self, future, place))
        return answers[-1]

    monkeypatch.setattr(Cluster, "_value", seen)
    draws = langevin(CHAIN, gradient(), np.zeros(3), client=client)
    assert np.array_equal(np.concatenate(answers), draws.values)
    assert_forgotten(client)


def fails(x):
    raise ValueError(f"the iterate is {SECRET + x[0, 0]}")


LOCK = threading.Lock()  # does not travel
REFUSED = [
    (fails, "client: a worker failed: ValueError"),
    (lambda x: x * np.inf, "gradient: expected finite numbers"),
    (lambda x, lock=LOCK: x * bool(lock), "client: cannot send it work: TypeError"),
    (None, "gradient: expected a callable, got a NoneType"),
]


@every("own, line", REFUSED)
def test_a_refusal_is_one_line_and_shows_nothing(client, own, line, caplog, capfd):
    start = np.full(3, SECRET)
    with caplog.at_level(logging.DEBUG), pytest.raises(InvalidInput) as no:
        langevin(replace(CHAIN, prox=None), own, start, client=client)
    assert str(no.value) == line
    shown = caplog.text + "".join(capfd.readouterr())
    assert str(SECRET) not in shown
    assert str(2 * SECRET) not in shown
    assert_forgotten(client)


def test_answers_to_other_questions_and_of_other_arithmetic_are_refused(client, monkeypatch):
    def other(function, place, part):
        return Answer((place[0], place[1] + 1), "", function.value(part.value))

    def elsewhere(function, place, part):
        return Answer(place, "sums 2", function.value(part.value))

    changes = {
        other: "a worker answered another question",
        elsewhere: "expected workers that compute alike",
    }
    for function, line in changes.items():
        with monkeypatch.context() as patch, pytest.raises(InvalidInput, match=f"^client: {line}"):
            patch.setattr("pabi.integrations.dask.tasks.answer", function)
            langevin(CHAIN, gradient(), np.zeros(3), client=client)

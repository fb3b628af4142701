"""Audits as users run them."""

import io
import itertools
import json
import math
from fractions import Fraction
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import binom

import pabi
from pabi.audits import audit_outputs, canary_pair, one_run
from pabi.audits.auditing import chance, refuted_epsilon
from pabi.convert import gdp_to_epsilon
from pabi.learn import LogisticGradients, train
from pabi.numbers import locking
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import Gaussian
from pabi.tradeoff.guarantee import Guarantee
from support.every_case import every, refused, refuses

SURE = 1.0 - 1e-6
GIVEN = {"n": 50, "batches": pabi.FullBatch(), "steps": 4, "step_size": 0.5, "noise_std": 0.08}
RUN = pabi.NoisySGD(pabi.Loss.convex(1.0, gradient_bound=1.0), **GIVEN)
MU = 1.0  # √4·(2/50)/0.08


def stated(mu):
    return Guarantee.from_tradeoff(
        Gaussian(mu), adjacency="replace_one", method="stated", source="a test"
    )


@pytest.fixture(scope="module")
def audit():
    return pabi.audit(RUN, trainings=40_000, confidence=SURE, random_state=1)


def test_bounds_are_in_order(audit):
    """Trainings ≤ exact instance ≤ guarantee; here the instance is all that is promised."""
    truth = gdp_to_epsilon(MU, 1e-5)
    assert 0.2 * truth < audit.epsilon_lower < audit.exact
    assert audit.exact == pytest.approx(truth, rel=1e-4)
    assert audit.exact <= audit.guarantee.epsilon(1e-5)
    assert 0.8 * MU < audit.mu_lower < audit.exact_mu <= audit.guarantee.mu
    assert not audit.refuted


def test_a_delta_that_so_many_trainings_resolve_shows_more(audit):
    at = audit.resolved_delta
    assert at > audit.delta
    shares = [audit.epsilon(d) / audit.exact_epsilon(d) for d in (audit.delta, at)]
    assert shares[0] + 0.15 < shares[1] < 1.0
    first, again = (pabi.audit(RUN, trainings=1_000, random_state=3) for _ in range(2))
    assert first.points == again.points


@pytest.mark.parametrize(("share", "trainings"), [(0.5, 4_000), (0.99, 200)])
def test_a_guarantee_that_promises_too_much_is_refuted(monkeypatch, share, trainings):
    """One per cent too little by the exact instance, where trainings cannot."""
    monkeypatch.setattr(pabi.NoisySGD, "guarantee", lambda self, delta: stated(share * MU))
    result = pabi.audit(RUN, trainings=trainings, confidence=SURE)
    assert result.refuted
    assert (result.mu_lower > share * MU) is (share == 0.5)


def test_the_table_says_what_was_shown(audit):
    text = str(audit)
    assert text.startswith("audit          not refuted\n")
    assert [line.split("  ")[0] for line in text.splitlines()[5:]] == [
        "trainings show",
        "exact instance",
        "guarantee",
    ]
    assert "one record with a gradient of 1 or -1" in text


def test_the_audit_as_json(audit):
    table = json.loads(json.dumps(audit.to_dict()))
    assert table["refuted"] is False
    assert [reading["delta"] for reading in table["readings"]] == [1e-5, audit.resolved_delta]
    assert table["readings"][0]["epsilon_lower"] == audit.epsilon_lower
    assert np.array(table["curve"]).shape == audit.curve.shape == (len(audit.points), 2)


def test_the_picture_has_guarantee_instance_and_points(audit):
    ax = audit.plot()
    promised, instance, points = ax.get_lines()[:3]
    assert points.get_xydata() == pytest.approx(audit.curve)
    x, y = instance.get_data()
    assert (y >= Gaussian(MU * 1.001)(np.clip(x, 0.0, 1.0)) - 1e-6).all()
    assert (promised.get_ydata() <= np.interp(promised.get_xdata(), x, y) + 1e-4).all()
    plt.close(ax.figure)


@pytest.mark.parametrize(
    ("train", "labels"),
    [
        (None, ["looking for the worst data sets", "auditing, 100 trainings"]),
        (lambda X, y: [0.0], ["choosing what is tested", "auditing, 100 trainings"]),
    ],
    ids=["itself", "a trainer"],
)
def test_a_terminal_sees_that_every_part_of_an_audit_goes_on(train, labels, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    # Time passes at every look at the clock, so that each part takes more than two seconds.
    terminal, clock = Terminal(), itertools.count(0.0, 3.0)
    monkeypatch.setattr(locking, "sys", SimpleNamespace(stderr=terminal, modules={}))
    monkeypatch.setattr(locking, "monotonic", lambda: next(clock))
    pabi.audit(LOGISTIC if train else RUN, train=train, trainings=100)
    lines = [line.split(" … ")[0].strip() for line in terminal.getvalue().split("\r")]
    assert [line for line in dict.fromkeys(lines) if line] == ["accounting", *labels]
    assert not lines[-1]  # erased


def test_what_is_out_of_range_is_named():
    numbers = {"trainings": [99], "delta": [1.0], "confidence": [1.0]}
    refuses(lambda **changes: pabi.audit(RUN, **changes), numbers)
    odd = [3, lambda X, y: "coefficients", lambda X, y: [math.nan]]
    refuses(lambda **changes: pabi.audit(LOGISTIC, **changes), {"train": odd})
    assert "expected a NoisySGD" in refused("run", pabi.audit, stated(1.0))
    own = {"train": lambda X, y: [0.0]}
    assert "expected a loss of logistic" in refused("run", pabi.audit, RUN, **own)


# Outputs from elsewhere.


def gaussians(mu, count, d=3, seed=0):
    """Models of two data sets, at distance μ in a direction that nobody is told."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=d)
    direction /= np.linalg.norm(direction)
    return rng.normal(size=(count, d)), mu * direction + rng.normal(size=(count, d))


def test_a_direction_is_chosen_from_half_of_the_models():
    null, other = gaussians(2.0, 20_000)
    result = audit_outputs(stated(2.0), null, other, confidence=SURE)
    assert 1.7 < result.mu_lower < 2.0
    assert not result.refuted
    assert audit_outputs(stated(1.5), null, other, confidence=SURE).refuted


def test_a_noisy_column_hides_no_other_and_one_that_gives_everything_away_is_found():
    """The latter is constant on either data set."""
    null, other = gaussians(2.0, 2_000, d=1)
    noise = np.random.default_rng(1).normal(size=(2, 2_000, 1)) * 1e4
    tables = [np.hstack(pair) for pair in zip((null, other), noise, strict=True)]
    assert audit_outputs(stated(1.0), *tables, confidence=SURE).refuted
    pair = zip(gaussians(0.0, 200), (0.0, 1e-3), strict=True)
    tables = [np.hstack([table, np.full((200, 1), value)]) for table, value in pair]
    assert audit_outputs(stated(1.0), *tables, confidence=SURE).refuted


def test_choosing_does_not_make_equal_models_unequal():
    """500 columns and 200 models: half of them tell the data sets apart perfectly, the other half do not."""
    for seed in range(20):
        null, other = gaussians(0.0, 200, d=500, seed=seed)
        assert not audit_outputs(stated(0.01), null, other, confidence=0.9999).refuted


@pytest.mark.filterwarnings("ignore:(overflow|invalid):RuntimeWarning")
def test_models_too_large_to_average_refute_nothing():
    """Their means overflow, and their scores are NaN: neither answer of a test, which was both right."""
    null, other = 1.7e308 * np.random.default_rng(4).uniform(0.5, 1.0, (2, 200, 2))
    assert audit_outputs(stated(1.0), null, other).epsilon_lower == 0.0


def test_models_that_are_no_numbers_are_refused():
    for null, other in (
        (np.zeros(49), np.zeros(49)),
        (np.zeros((60, 2)), np.zeros((60, 3))),
        (np.full(60, np.nan), np.zeros(60)),
        (["x"] * 60, np.zeros(60)),
        (np.zeros((60, 1, 1)), np.zeros((60, 1, 1))),
    ):
        with pytest.raises(InvalidInput, match="^(null|other): expected"):
            audit_outputs(RUN, null, other)
    refused("promise", audit_outputs, 1.0, np.zeros(60), np.zeros(60))


# Canaries.

LOGISTIC = pabi.NoisySGD(
    pabi.Loss.logistic(2.0), n=30, batches=pabi.Cyclic(8), epochs=2, step_size=0.5, noise_std=0.1
)


@every("adjacency", ["replace_one", "zero_out"])
@every("loss", [pabi.Loss.logistic(2.0), pabi.Loss.huber(2.0, 1.0)])
def test_canaries_are_neighbours(adjacency, loss):
    given = {"n": 30, "batches": pabi.Cyclic(8), "steps": 6, "step_size": 0.5, "noise_std": 0.1}
    run = pabi.NoisySGD(loss, **given, adjacency=adjacency)
    first, other = canary_pair(run, target=3.0)
    changed = np.flatnonzero((first.X != other.X).any(axis=1) | (first.y != other.y))
    assert changed.tolist() == [8]  # the sixth step uses the second batch
    assert first.X[8].tolist() == [2.0]
    if adjacency == "replace_one":
        assert other.X[8].tolist() == [2.0]
        assert first.y[8] != other.y[8]
    else:
        assert other.X[8].tolist() == [0.0]
    assert np.delete(first.X, 8) == pytest.approx(0.0)


# One training with canaries: against pure randomised response, and against how often audits are wrong.


def test_without_delta_guesses_are_coins_of_randomised_response():
    """Steinke, Nasr, Jagielski, Thm 5.2 with δ = 0: r guesses are right as often as Bin(r, e^ε/(1 + e^ε))."""
    for epsilon, guesses, correct in [(0.0, 20, 15), (1.0, 50, 40), (2.0, 7, 7)]:
        truth = binom.sf(correct - 1, guesses, math.exp(epsilon) / (1.0 + math.exp(epsilon)))
        assert chance(100, guesses, correct, epsilon=epsilon, delta=0.0) == pytest.approx(truth)


def test_delta_adds_what_the_theorem_says():
    """2mδ·max_i P(v > W ≥ v − i)/i, in fractions: ε = 0, four guesses, three of them right, of ten."""
    pmf = [Fraction(math.comb(4, k), 16) for k in range(5)]
    most = max(sum(pmf[3 - i : 3], Fraction(0)) / i for i in (1, 2, 3))
    truth = pmf[3] + pmf[4] + 2 * 10 * Fraction(1, 1000) * most
    computed = chance(10, 4, 3, epsilon=0.0, delta=1e-3)
    assert computed == pytest.approx(float(truth), rel=1e-12)


def test_randomised_response_is_refuted_as_rarely_as_stated():
    """Each of 100 bits is kept with odds e: over all counts, not simulated. The refuted ε is the largest."""
    right = math.e / (1.0 + math.e)
    wrong = [k for k in range(101) if refuted_epsilon(100, 100, k, delta=0.0, error=0.05) > 1.0]
    assert 0.01 < binom.pmf(wrong, 100, right).sum() <= 0.05
    epsilon = refuted_epsilon(200, 100, 90, delta=1e-5, error=0.05)
    assert chance(200, 100, 90, epsilon=epsilon - 1e-5, delta=1e-5) <= 0.05
    assert chance(200, 100, 90, epsilon=epsilon + 1e-5, delta=1e-5) > 0.05
    assert refuted_epsilon(200, 100, 50, delta=1e-5, error=0.05) == 0.0


ONE_STEP = {"n": 300, "batches": pabi.FullBatch(), "steps": 1, "step_size": 1.0}
ONE_STEP |= {"adjacency": "zero_out"}
CANARIES = pabi.NoisySGD(pabi.Loss.logistic(1.0), **ONE_STEP, noise_std=0.5 / 300, clip_norm=0.5)


def own_training(X, y):
    return train(CANARIES, LogisticGradients(X, y), x0=np.zeros(X.shape[1])).x


def test_what_is_wrong_with_canaries_is_named():
    three = lambda X, y: np.zeros(3)  # noqa: E731
    assert "10..n = 300" in refused("canaries", one_run, CANARIES, own_training, canaries=301)
    assert "20 coefficients, got 3" in refused("train", one_run, CANARIES, three, canaries=20)


def test_one_training_shows_some_of_what_is_promised():
    """Each canary moves its own coordinate by one standard deviation."""
    result = one_run(CANARIES, own_training, canaries=300, confidence=1.0 - 1e-3)
    assert 0.0 < result.epsilon_lower < result.guarantee.epsilon(1e-5)
    assert not result.refuted
    assert f"{result.correct} of {result.guesses} guesses right" in str(result)


def test_one_training_without_noise_is_caught():
    def telling(X, y):
        return X.sum(axis=0)

    result = one_run(CANARIES, telling, canaries=300, confidence=0.999)
    assert result.correct == result.guesses
    assert result.epsilon_lower > 1.0
    weak = pabi.NoisySGD(pabi.Loss.logistic(1.0), **ONE_STEP, noise_std=0.02)
    assert one_run(weak, telling, canaries=300).refuted

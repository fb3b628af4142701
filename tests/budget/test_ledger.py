"""The ledger: what it grants and refuses, its guarantee, its copies, and who uses it."""

import contextlib
import copy
import json
import math
import os
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import pabi
from pabi import learn
from pabi.budget.files import read_book
from pabi.budget.filters import guarantee_of
from pabi.convert import gdp_to_delta, gdp_to_epsilon
from pabi.numbers.errors import BudgetExceeded, InvalidInput
from pabi.numbers.showing import shown, shown_down
from pabi.sampling import diffusion, gibbs_rejection, langevin, mean_gradient, mean_loss
from pabi.tradeoff import Gaussian
from pabi.tradeoff.guarantee import INDEPENDENT, TESTING, Guarantee
from pabi.tradeoff.selection import ENTERED, refusing_above
from support.every_case import every, refused, refuses
from support.ledgers import DELTA, release, that_may_fail

EPSILON, MU = 1.0, 0.1


@pytest.fixture
def ledger(tmp_path):
    return pabi.Ledger(tmp_path / "a.ledger", EPSILON, DELTA)


def lines(ledger):
    return [json.loads(line) for line in ledger.path.read_text().splitlines()]


# Granting and refusing.


def test_what_is_granted_adds_up_and_what_is_not_leaves_no_trace(ledger):
    budget = ledger.report().budget
    assert gdp_to_delta(budget, EPSILON) <= DELTA
    granted = math.floor((budget / MU) ** 2)
    for k in range(granted):
        assert ledger.reserve(release(MU)).number == k + 1
    before = ledger.path.read_bytes()
    expected = r"mu = 0\.10*1? is asked, and mu = 0\.\d+ is left of the budget epsilon = 1 at delta = 1e-05"
    with pytest.raises(BudgetExceeded, match=f"^{expected}; ") as caught:
        ledger.reserve(release(MU))
    own, left = shown(release(MU).epsilon(DELTA)), shown_down(ledger.remaining())
    told = f"; its epsilon is {own}, and a Gaussian release fits up to {left}"
    assert str(caught.value).endswith(told)
    assert ledger.path.read_bytes() == before
    assert caught.value.needed == MU
    assert caught.value.left == ledger.report().left
    assert caught.value.left**2 == pytest.approx(budget**2 - granted * MU**2)
    ledger.spend(release(0.9 * caught.value.left))
    assert not isinstance(caught.value, InvalidInput)
    assert isinstance(caught.value, ValueError)


def test_the_whole_budget_can_be_spent_at_once(ledger):
    """A release that is calibrated to what remains is granted, and then nothing is left."""
    blank = pabi.NoisySecondMoments(100, 2, 1.0, adjacency="zero_out")
    ledger.spend(pabi.calibrate(blank, 0.6 * EPSILON, DELTA).guarantee(DELTA))
    ledger.spend(pabi.calibrate(blank, ledger.remaining(), DELTA).guarantee(DELTA))
    assert ledger.remaining() < 1e-4
    assert ledger.report().spent <= EPSILON
    with pytest.raises(BudgetExceeded):
        ledger.spend(release(MU))


def test_a_reservation_is_never_given_back(ledger):
    left = ledger.remaining()
    with pytest.raises(ZeroDivisionError), ledger.reserve(release(MU)):
        _ = 1 / 0
    assert ledger.remaining() < left
    left = ledger.remaining()
    reservation = ledger.reserve(release(MU))
    del reservation
    assert ledger.remaining() < left
    with ledger.reserve(release(MU)) as reservation:
        assert not ledger.report().entries[2].committed
    size = ledger.path.stat().st_size
    reservation.commit()
    assert ledger.path.stat().st_size == size
    assert [entry.committed for entry in ledger.report().entries] == [False, False, True]


def test_remaining_reads_at_any_delta_and_rounds_down(ledger):
    ledger.spend(release(0.2))
    left = math.sqrt(ledger.report().budget ** 2 - 0.04)
    for delta in (DELTA, 1e-9, 0.3):
        assert ledger.remaining(delta) <= gdp_to_epsilon(left, delta)
        assert ledger.remaining(delta) == pytest.approx(gdp_to_epsilon(left, delta), rel=1e-9)
    assert ledger.remaining() == ledger.remaining(DELTA) == ledger.report().epsilon_left
    for wrong in (0.0, 1.0, "1e-5"):
        refused("delta", ledger.remaining, wrong)


def test_what_is_refused(ledger):
    moments = pabi.NoisySecondMoments(1000, 3, 1.0, noise_std=10.0, adjacency="zero_out")
    honest = moments.guarantee(DELTA)
    names = ("curve", "adjacency", "method", "source", "assumptions", "proof")
    fields = {name: getattr(honest, name) for name in names}
    loss = pabi.Loss.logistic(feature_norm=1.0)
    run = pabi.NoisySGD(loss, 40, pabi.Cyclic(10), 5, None, 0.1, 1.0, adjacency="zero_out")
    of_one_batch = run.guarantee(DELTA, position=0)
    before = ledger.path.read_bytes()
    for wrong, message in (
        (
            Guarantee(**fields | {"proof": None}),
            "one with a certificate that verifies: there is no",
        ),
        (Guarantee(**fields | {"curve": Gaussian(0.01)}), "one with a certificate that verifies: "),
        (Guarantee(**fields, unit="user"), "one with a certificate that verifies: unit"),
        (honest.for_testing(), "one that protects somebody"),
        (of_one_batch, "one that protects everybody"),
        (0.5, "a pabi.Guarantee, got a float"),
    ):
        assert f"guarantee: expected {message}" in refused("guarantee", ledger.spend, wrong)
    refused("testing", ledger.spend, honest, testing=1)
    assert ledger.path.read_bytes() == before
    ledger.spend(honest)
    told = refused("adjacency", ledger.spend, release(MU, "replace_one"))
    assert "expected 'zero_out', that of the ledger's first" in told


def test_budgets_out_of_range(tmp_path):
    path, usual = tmp_path / "a.ledger", {"epsilon": 1.0, "delta": DELTA}
    bad = {"delta": (0.0, 1.0), "order": (1.0,)}
    bad["epsilon"] = (0.0, math.inf, np.array([1.0, 2.0]), "1", None, [2.0])
    refuses(lambda **wrong: pabi.Ledger(path, **usual | wrong), bad)
    assert not path.exists()
    assert "expected a path, got a int" in refused("path", pabi.Ledger, 3, **usual)


@every("budget", [(2.0, DELTA, None), (1.0, 1e-6, None), (1.0, DELTA, 9.0)])
def test_another_budget_is_refused_naming_both(ledger, budget):
    epsilon, delta, order = budget
    with pytest.raises(InvalidInput) as caught:
        pabi.Ledger(ledger.path, epsilon, delta, order=order)
    text = str(caught.value)
    assert f"expected a ledger of epsilon = {epsilon:g} at delta = {delta:g}" in text
    assert text.endswith("got one of epsilon = 1 at delta = 1e-05")
    assert ("Rényi order 9" in text) == (order is not None)


# What all of it costs.


@pytest.mark.parametrize("more", [{}, {"order": 12.0}, {"unit": "user"}])
def test_a_path_alone_opens_what_is_there_and_makes_nothing(tmp_path, more):
    path = tmp_path / "there.ledger"
    with pytest.raises(InvalidInput, match="state epsilon and delta to open a new one"):
        pabi.Ledger(path)
    assert not path.exists()
    first = pabi.Ledger(path, 1.5, DELTA, **more)
    again = pabi.Ledger(path)
    assert repr(again) == repr(first)
    assert pickle.loads(pickle.dumps(again)).remaining() == first.remaining()
    refused("epsilon", pabi.Ledger, path, delta=DELTA)
    with pytest.raises(InvalidInput):
        pabi.Ledger(path, order=9.0)


def test_what_no_mu_bounds_says_what_takes_it(ledger, tmp_path):
    best = pabi.select(release(0.05), 3.0)
    with pytest.raises(InvalidInput, match=r"a ledger opened with an order charges it"):
        ledger.spend(best)
    order = pabi.Ledger.best_order([best], 1.0, DELTA)
    other = pabi.Ledger(tmp_path / "b.ledger", 1.0, DELTA, order=order)
    other.spend(best)
    for one in (ledger, other):
        with pytest.raises(InvalidInput, match="a probability of up to .* it promises nothing"):
            one.spend(that_may_fail())
    grouped = of_ten_epochs(3.0).for_groups(3)
    of_groups = pabi.Ledger(tmp_path / "g.ledger", 90.0, DELTA, order=2.0, unit=grouped.unit)
    with pytest.raises(InvalidInput, match="a finite rho bounds, got a grouped curve"):
        of_groups.spend(grouped)


def test_the_guarantee_is_the_budget_whatever_was_spent(ledger):
    with pytest.raises(InvalidInput, match="expected an entry"):
        _ = ledger.guarantee
    ledger.spend(release(0.05))
    first = ledger.guarantee
    ledger.spend(release(0.1))
    whole = ledger.guarantee
    assert first.curve == whole.curve == pabi.tradeoff.Gaussian(ledger.report().budget)
    assert whole.epsilon(DELTA) <= EPSILON
    assert ledger.report().spent < 0.5 * EPSILON
    assert (whole.adjacency, whole.unit, whole.tuned_at) == ("zero_out", "record", DELTA)
    own = (INDEPENDENT, ENTERED, refusing_above(whole.mu))
    assert whole.assumptions == (*release(0.1).assumptions, *own)
    verdict = pabi.verify(whole)
    assert verdict.ok, verdict.reason
    assert verdict.assumptions == whole.assumptions
    assert whole.verified
    assert pabi.verify(whole.to_json()).ok


def test_a_test_run_spends_and_voids_the_guarantee(ledger):
    ledger.spend(release(0.05).assuming("the features are centred without the data"))
    whole = ledger.guarantee
    assert "the features are centred without the data" in whole.assumptions
    assert pabi.verify(whole).ok
    ledger.spend(release(0.05))
    with ledger.reserve(release(0.05), testing=True):
        pass
    assert [entry.testing for entry in ledger.report().entries] == [False, False, True]
    whole = ledger.guarantee
    assert whole.assumptions[0] == TESTING
    assert whole.certificate is None


POISSON = {"n": 10_000, "batches": pabi.Poisson(100), "epochs": 2, "noise_multiplier": 2.0}


def drawn_batches(**changes):
    """A run with Poisson batches, which a Gaussian below it and some orders make far too dear."""
    settings = {"step_size": 0.1, "clip_norm": 1.0, "adjacency": "zero_out", **POISSON, **changes}
    return pabi.NoisySGD(pabi.Loss.unknown(), **settings).guarantee(DELTA)


def of_ten_epochs(multiplier):
    size = {"n": 20_000, "batches": pabi.Poisson(200), "epochs": 10}
    return drawn_batches(**size, noise_multiplier=multiplier)


def test_orders(tmp_path):
    """A ledger of Rényi divergences grants what one of Gaussians cannot."""
    guarantee = drawn_batches()
    gaussian = pabi.Ledger(tmp_path / "a.ledger", 2.0, DELTA)
    with pytest.raises(BudgetExceeded):
        gaussian.spend(guarantee)
    renyi = pabi.Ledger(tmp_path / "b.ledger", 2.0, DELTA, order=12)
    renyi.spend(guarantee)
    assert renyi.report().entries[0].charge == guarantee.rdp(12.0)
    whole = renyi.guarantee
    assert whole.epsilon(DELTA) == pytest.approx(2.0, rel=1e-12)
    assert whole.epsilon(DELTA) <= 2.0 < whole.epsilon(DELTA / 10.0) < math.inf
    assert "order 12 above" in whole.assumptions[-1]
    verdict = pabi.verify(whole.to_json())
    assert verdict.ok, verdict.reason
    assert verdict.reading == (2.0, DELTA)
    assert 0.0 < renyi.remaining() < 2.0
    assert renyi.report().symbol == "rho"


# The file and its copies.


def test_what_the_file_holds(ledger):
    ledger.reserve(release(MU)).commit()
    opening, entry, commit = lines(ledger)
    assert list(opening) == [
        "format", "version", "epsilon", "delta", "unit", "filter", "opened", "name", "hash",
    ]  # fmt: skip
    assert (opening["format"], opening["version"]) == ("pabi.ledger", 1)
    assert list(entry) == ["entry", "number", "at", "testing", "charge", "guarantee", "hash"]
    assert list(commit) == ["entry", "number", "at", "hash"]
    for at in (opening["opened"], entry["at"], commit["at"]):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", at)
    assert Guarantee.from_dict(entry["guarantee"]).to_json() == release(MU).to_json()


CHANGING = ("at", "opened", "name", "hash")


def test_the_file_says_nothing_of_the_data(tmp_path):
    """Two data sets of one size lead to the same file, but for times, names and hashes."""

    def written(name, X, y):
        one = pabi.Ledger(tmp_path / name, 3.0, DELTA)
        learn.PrivateLinearRegression(1.0, DELTA, target_range=(-1, 1), ledger=one).fit(X, y)
        learn.PrivateWhitener(1.0, DELTA, ledger=one).fit(X)
        return [{k: v for k, v in line.items() if k not in CHANGING} for line in lines(one)]

    X = np.random.default_rng(0).normal(size=(800, 3))
    first = written("a.ledger", X, X[:, 0])
    assert first == written("b.ledger", 9.0 * X + 4.0, np.ones(800))
    assert len(first) == 5


def test_copies_share_the_file_and_errors_go_through_pools(ledger):
    copies = [copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))]
    for k, one in enumerate(copies, 1):
        one.spend(release(0.05))
        assert len(ledger.report().entries) == k
        assert repr(one) == repr(ledger)
    assert len(pickle.dumps(ledger)) < 1000
    again = pickle.loads(pickle.dumps(BudgetExceeded("nothing is left", 0.5, 0.25)))
    assert (str(again), again.needed, again.left) == ("nothing is left", 0.5, 0.25)


def test_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = pabi.Ledger("a.ledger", EPSILON, DELTA)
    two = pabi.Ledger(Path("a.ledger"), EPSILON, DELTA)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    one.spend(release(0.05))
    two.spend(release(0.05))
    pickle.loads(pickle.dumps(two)).spend(release(0.05))
    assert len(one.report().entries) == 3
    assert os.listdir(".") == []
    assert repr(one) == f"Ledger({str(tmp_path / 'a.ledger')!r}, epsilon=1, delta=1e-05)"


def test_a_report_shows_what_is_spent_rounded_up_and_what_is_left_rounded_down(ledger):
    assert "nothing is entered yet" in str(ledger.report())
    assert ledger.report().adjacency is None
    ledger.reserve(release(MU))
    ledger.spend(release(MU), testing=True)
    report = ledger.report()
    text = str(report).splitlines()
    assert text[1] == f"spent      epsilon {shown(report.spent)} so far (a reading)"
    assert report.spent == gdp_to_epsilon(math.sqrt(2.0) * MU, DELTA)
    assert text[-2].endswith("not committed")
    assert text[-1].endswith("testing")
    assert float(text[2].split()[2]) <= ledger.remaining()
    assert f"<td>epsilon {shown(report.spent)} so far (a reading)</td>" in ledger._repr_html_()
    assert "<summary>2 entries</summary>" in report._repr_html_()
    table = report.to_dict()
    assert json.loads(json.dumps(table)) == table
    assert [entry["number"] for entry in table["entries"]] == [1, 2]


# Who uses it.


LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.1)


def records(n=300, d=2, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X /= 1.01 * np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, (X[:, 0] > 0.0).astype(float)


RUN = pabi.NoisySGD(LOSS, n=300, batches=pabi.Cyclic(50), epochs=2, step_size=0.5, noise_std=0.5)


def trained(ledger, **changes):
    X, y = records()
    gradients = learn.LogisticGradients(learn.Records(X, 1.0), y)
    return learn.train(RUN, gradients, np.zeros(2), ledger=ledger, **changes)


def released(ledger, **changes):
    moments, own = pabi.NoisySecondMoments(300, 2, 1.0, noise_std=9.0), records()[0]
    return learn.second_moments(moments, learn.Records(own, 1.0), ledger=ledger, **changes)


def sampled(ledger, **changes):
    chain = pabi.LangevinChain(LOSS, 300, inverse_temperature=30.0, step_size=1e-3, steps=4)
    gradient = mean_gradient(*records(), LOSS)
    return langevin(chain, gradient, np.zeros(2), ledger=ledger, **changes)


def followed(ledger, **changes):
    falling = np.array([10.0, 30.0])
    cooling = pabi.LangevinDiffusion(LOSS, 300, inverse_temperature=falling, time=0.01)
    gradient = mean_gradient(*records(), LOSS)
    return diffusion(cooling, gradient, np.zeros(2), steps=6, ledger=ledger, **changes)


def drawn(ledger, **changes):
    loss, size = pabi.Loss.logistic(feature_norm=1.0), {"dimension": 2, "diameter": 1.0}
    mechanism = pabi.ExponentialMechanism(loss, n=300, inverse_temperature=20.0, **size)
    return gibbs_rejection(mechanism, mean_loss(*records(), loss), ledger=ledger, **changes)


def fitted(ledger, **changes):
    settings = {"epsilon": 1.5, "delta": DELTA, "classes": [0.0, 1.0], **changes}
    return learn.PrivateLogisticRegression(ledger=ledger, **settings).fit(*records())


def whitened(ledger, **changes):
    settings = {"epsilon": 1.5, "delta": DELTA, **changes}
    return learn.PrivateWhitener(ledger=ledger, **settings).fit(records()[0])


USERS = (trained, released, sampled, followed, drawn, fitted, whitened)


@pytest.mark.parametrize("use", USERS, ids=lambda use: use.__name__)
def test_everybody_reserves_what_the_release_costs(use, tmp_path):
    def spent(ledger, **changes):
        result = use(ledger, **changes)
        return result.guarantee if hasattr(result, "guarantee") else result.guarantee_

    ledger = pabi.Ledger(tmp_path / "a.ledger", 50.0, DELTA)
    guarantee = spent(ledger)
    (entry,) = ledger.report().entries
    assert (entry.committed, entry.testing) == (True, False)
    reserved = Guarantee.from_dict(lines(ledger)[1]["guarantee"])
    assert reserved.curve == guarantee.curve == spent(None).curve
    assert set(reserved.assumptions) <= set(guarantee.assumptions)
    use(ledger, random_state=0)
    again = ledger.report().entries[1]
    assert (again.testing, again.charge) == (True, entry.charge)
    assert "expected a pabi.Ledger or None, got a str" in refused("ledger", use, str(ledger.path))
    assert len(ledger.report().entries) == 2
    poor = pabi.Ledger(tmp_path / "b.ledger", 1e-3, DELTA)
    with pytest.raises(BudgetExceeded, match="is asked, and mu = "):
        use(poor)
    assert poor.report().entries == ()


def test_data_are_read_after_the_reservation_only(tmp_path):
    def touched(x, rows):
        raise AssertionError("the data was touched")

    poor, rich = (pabi.Ledger(tmp_path / f"{e}.ledger", e, DELTA) for e in (1e-3, 50.0))
    with pytest.raises(BudgetExceeded):
        learn.train(RUN, touched, np.zeros(2), ledger=poor)
    with pytest.raises(InvalidInput, match="fails on records of the data"):
        learn.train(RUN, touched, np.zeros(2), ledger=rich)
    (entry,) = rich.report().entries
    assert not entry.committed
    for wrong in ({"x0": np.array([np.nan, 0.0])}, {"x0": np.zeros(2), "random_state": "seed"}):
        with pytest.raises(InvalidInput):  # found out before
            learn.train(RUN, touched, ledger=rich, **wrong)
    assert len(rich.report().entries) == 1


def test_a_fit_with_preconditioning_reserves_both_releases_as_one(tmp_path):
    ledger = pabi.Ledger(tmp_path / "a.ledger", 2.5, DELTA)
    X, y = records(3000)
    model = learn.PrivateLogisticRegression(2.0, DELTA, classes=[0.0, 1.0], ledger=ledger).fit(X, y)
    assert model.moments_ is not None
    (entry,) = ledger.report().entries
    assert entry.method == model.guarantee_.method
    assert " + " in entry.method
    with pytest.raises(BudgetExceeded):
        clone(model).fit(X, y)
    assert len(ledger.report().entries) == 1


def test_a_grid_search_in_two_processes_is_cut_off_at_the_eleventh_fit(tmp_path):
    X, y = records(200)
    settings = {"epsilon": 1.0, "delta": DELTA, "classes": [0.0, 1.0], "precondition": None}
    settings |= {"noise_std": 0.5, "batches": pabi.FullBatch(), "epochs": 2}
    one = learn.PrivateLogisticRegression(**settings).fit(X[:100], y[:100]).guarantee_
    epsilon = gdp_to_epsilon(one.mu * math.sqrt(10.5), DELTA)
    ledger = pabi.Ledger(tmp_path / "a.ledger", epsilon, DELTA)
    grid = {"intercept_scaling": [1.0] * 6}
    estimator = learn.PrivateLogisticRegression(**settings, ledger=ledger)
    search = GridSearchCV(estimator, grid, n_jobs=2, cv=2, refit=False)
    with pytest.warns(Warning, match="2 fits failed"):
        search.fit(pd.DataFrame(X), y)
    report = ledger.report()
    assert len(report.entries) == 10
    assert all(entry.committed for entry in report.entries)
    assert {entry.charge for entry in report.entries} == {one.mu}
    assert np.isnan(search.cv_results_["mean_test_score"]).sum() in (1, 2)
    with pytest.raises(BudgetExceeded):
        clone(estimator).fit(X[:100], y[:100])


@pytest.mark.parametrize("multiplier", [1.1, 1.5, 3.0])
def test_the_order_that_leaves_most(tmp_path, multiplier):
    """No other order that is tried grants more of these releases."""
    one = of_ten_epochs(multiplier)
    best = pabi.Ledger.best_order([one], 3.0, DELTA)
    granted = {}
    for order in (best, 4.0, 12.0, 20.0):
        ledger = pabi.Ledger(tmp_path / f"{order}", 3.0, DELTA, order=order)
        count = 0
        with contextlib.suppress(BudgetExceeded):
            while count < 30:
                ledger.spend(one)
                count += 1
        granted[order] = count
    assert granted[best] == max(granted.values()) > 0


def test_gaussian_releases_need_no_order():
    assert pabi.Ledger.best_order([release(0.1), release(0.2)], 1.0, DELTA) is None
    assert pabi.Ledger.best_order([], 1.0, DELTA) is None
    with pytest.raises(InvalidInput, match="guarantees: expected pabi.Guarantee objects"):
        pabi.Ledger.best_order([0.5], 1.0, DELTA)


@pytest.mark.parametrize(("order", "told"), [(None, "with an order"), (20.0, "with another order")])
def test_a_charge_far_above_the_cost_names_the_way_out(tmp_path, order, told):
    ledger = pabi.Ledger(tmp_path / "a.ledger", 3.0, DELTA, order=order)
    with pytest.raises(BudgetExceeded, match=told):
        ledger.spend(of_ten_epochs(1.1))
    with pytest.raises(BudgetExceeded) as caught:
        ledger.spend(release(50.0))
    assert "best_order" not in str(caught.value)


def test_a_charge_far_above_the_cost_is_named_where_no_order_helps(tmp_path):
    """Of a batch that is secret, and charged as if it were in sight."""
    bins = pabi.BallsInBins(100, redraw="epoch")
    step = {"step_size": 0.1, "clip_norm": 1.0, "noise_multiplier": 2.0}
    one = pabi.NoisySGD(pabi.Loss.unknown(), 1000, bins, 3, **step).guarantee(DELTA)
    ledger = pabi.Ledger(tmp_path / "a.ledger", 1.0, DELTA)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.spend(one)
    charged = gdp_to_epsilon(caught.value.needed, DELTA)
    assert charged > 1.25 * one.epsilon(DELTA)
    assert f"its epsilon is {shown(one.epsilon(DELTA))} (charged as {shown(charged)})" in str(
        caught.value
    )


def test_groups_are_read_from_the_whole_and_not_spent(ledger):
    with pytest.raises(InvalidInput, match="spend the guarantee of one of them"):
        ledger.spend(release(0.05).for_groups(3))
    ledger.spend(release(0.05))
    whole = ledger.guarantee.for_groups(3)
    assert (whole.unit, pabi.verify(whole).ok) == ("groups of 3 records", True)
    ledger.path.unlink()
    assert ledger._repr_html_().startswith("<p>")
    assert "No such file" in ledger._repr_html_()


def test_an_entry_without_its_guarantee_is_not_passed_over(tmp_path):
    """Whoever writes a line with a right hash may leave its content out."""
    ledger = pabi.Ledger(tmp_path / "a.ledger", 2.0, DELTA)
    ledger.spend(release(0.1))
    book = read_book(ledger.path)
    emptied = replace(book, granted=(replace(book.granted[0], guarantee={}),))
    with pytest.raises(pabi.InvalidInput):
        guarantee_of(emptied)


def test_a_copy_refuses_another_ledger_of_the_same_path_and_budget(tmp_path):
    """It may be empty where the first one was spent."""
    path = tmp_path / "ledger.jsonl"
    copied = pickle.dumps(pabi.Ledger(path, 3.0, 1e-5))
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(InvalidInput, match="No such file"):
        pickle.loads(copied).remaining()
    pabi.Ledger(path, 3.0, 1e-5)
    with pytest.raises(InvalidInput, match="expected the ledger that was there, got another one"):
        pickle.loads(copied).remaining()

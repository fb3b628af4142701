"""explain(): every analysis, with its result or its reason."""

import pytest

import pabi
from pabi.tradeoff import ApproxDP, Gaussian

LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)


def a_run(**changes):
    fields = {"loss": LOSS, "n": 10_000, "batches": pabi.ShuffleOnce(100), "epochs": 10}
    return pabi.NoisySGD(**{**fields, "step_size": 0.5, "noise_std": 0.04, **changes})


def test_rows_agree_with_the_guarantee():
    run = a_run()
    explanation = run.explain(1e-5)
    by_method = {row.method: row for row in explanation}
    applied = [row for row in explanation if row.applies]
    methods = ["payments in advance", "secret order", "shifted interpolation", "composition"]
    assert [row.method for row in applied] == methods
    assert [row.epsilon for row in applied] == sorted(row.epsilon for row in applied)
    assert [row.applies for row in explanation] == [True] * 4 + [False] * 10
    assert all((row.reason is None) == (row.epsilon is not None) for row in explanation)
    guarantee = run.guarantee(1e-5)
    assert guarantee.method == "payments in advance"
    assert min(row.epsilon for row in applied) == guarantee.epsilon(1e-5)
    assert by_method["secret order"].mu is None
    assert by_method["composition"].mu == pytest.approx((10 * (2 / 100 / 0.04) ** 2) ** 0.5)
    assert explanation.best.epsilon(1e-5) == guarantee.epsilon(1e-5)


def test_own_bounds_are_shown_and_never_believed():
    def too_good(run):
        return Gaussian(1e-6)

    def not_mine(run):
        raise pabi.NotApplicable("wrong phase of the moon")

    run = a_run()
    explanation = run.explain(1e-5, also=[too_good, not_mine, lambda run: ApproxDP(0.5, 1e-6)])
    rows = {row.method: row for row in explanation}
    assert rows["too_good"].epsilon == Gaussian(1e-6).epsilon(1e-5)
    assert rows["not_mine"].reason == "wrong phase of the moon"
    assert rows["<lambda>"].mu is None
    assert explanation.rows[0].method == explanation.best.method, "not the smaller one of my own"
    assert [row.method for row in explanation.rows[4:6]] == ["too_good", "<lambda>"]
    assert explanation.rows[-1].method == "not_mine"
    assert explanation.best.epsilon(1e-5) == run.guarantee(1e-5).epsilon(1e-5)
    with pytest.raises(pabi.InvalidInput, match="also: expected <lambda> to return"):
        run.explain(1e-5, also=[lambda run: 3.0])


def test_prints_as_a_table():
    explanation = a_run().explain(1e-5)
    lines = str(explanation).splitlines()
    assert "ε at δ = 1e-05" in lines[0]
    closing = lines.index("does not apply")
    assert [line.split("  ")[0] for line in lines[1:closing]] == [
        row.method for row in explanation if row.applies
    ]
    assert "the guarantee" in lines[1]
    assert sum("the guarantee" in line for line in lines) == 1
    told = {}
    for line in lines[closing + 1 : lines.index("what another training would cost")]:
        names, reason = line.strip().split(": ", 1)
        assert reason not in told.values(), "equal reasons share a line"
        told |= dict.fromkeys(names.split(", "), reason)
    assert told == {row.method: row.reason for row in explanation if not row.applies}


def test_nothing_applies():
    """Two runs that start apart, with a modulus of which nothing is known: no analysis covers it."""
    given = {"step_sensitivity": 1.0, "step_noise_std": 1.0, "steps": 3, "start": 1.0}
    it = pabi.NoisyIteration(moduli=pabi.Modulus.unbounded(), **given)
    explanation = it.explain(1e-5)
    assert explanation.best is None
    assert not any(row.applies for row in explanation)
    assert explanation.changes == explanation.advice == ()
    assert len(str(explanation).splitlines()) == 2 + len(explanation.refusals)
    with pytest.raises(pabi.NotApplicable, match=r"composition: .*; shifted interpolation: "):
        it.guarantee()

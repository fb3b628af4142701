"""Mechanisms that pabi did not make: stated by a curve, composed, budgeted, certified."""

import json

import pytest

import pabi
from pabi import tradeoff as t
from pabi.tradeoff.certificate import stated_sentence
from support.every_case import every, refuses

DELTA = 1e-5
SOURCE = "the statistics office"
NAMED = {"adjacency": "zero_out", "method": "noisy histogram", "source": SOURCE}
MIXED = t.Mixture([t.Gaussian(0.1), t.Gaussian(0.5)], [0.5, 0.5])
CLOSED = [t.Gaussian(0.3), t.Laplace(0.5), t.ApproxDP(0.7), t.BoundedRange(0.4), MIXED]
CLOSED += [t.FixedSizeSubsampled(1.0, 0.5, 0.5, 0.1), t.PoissonSubsampled(1.0, 0.1)]
CLOSED += [t.RenyiDP(8.0, 0.2)]
CLOSED += [t.Product([(t.Subsampled(t.Gaussian(1.0), 0.1), 2), (t.Laplace(0.2), 1)])]
CLOSED += [t.Product([(t.Gaussian(0.3), 1)], failure=1e-9)]
CLOSED += [t.Best([t.Gaussian(0.4), t.Laplace(0.3)]), t.PoissonReplaced(1.0, 0.01)]
CLOSED += [t.SecretMixture([0.2, 0.6], [0.5, 0.5])]
CLOSED += [t.RandomAllocation([0.9], [0.5], [9], displaces=True)]
CLOSED += [t.Product([(t.SecretMixture([0.2, 0.6], [0.5, 0.5], opposite=True), 3)])]
CLOSED += [t.Selected(t.Gaussian(0.3), 10.0, 0.5), t.Grouped(MIXED, 2)]
OPEN = [t.ApproxDP(0.7, 1e-6), t.Laplace(0.5, 0.1), t.randomised_response(0.5, 3)]
OPEN += [t.Best([t.Gaussian(0.4), t.Laplace(0.3, 0.5)])]
OPEN += [t.Product([(t.SecretMixture([0.2, 0.6], [0.5, 0.5]), 65)])]
OPEN += [t.Grouped(t.ApproxDP(0.7, 1e-6), 2)]
OPEN += [t.Best([t.Gaussian(0.4), t.PoissonSubsampled(0.3, 0.5)])]


def stated(curve, **changes):
    return pabi.Guarantee.from_tradeoff(curve, **(NAMED | changes))


def run(**changes):
    settings = {"n": 2000, "batches": pabi.ShuffleOnce(100), "epochs": 3}
    settings |= {"step_size": 0.1, "noise_std": 0.03, "adjacency": "zero_out"}
    return pabi.NoisySGD(pabi.Loss.logistic(1.0, l2=0.01), **(settings | changes))


@pytest.mark.parametrize("curve", CLOSED, ids=lambda curve: curve.kind)
def test_a_closed_form_comes_with_a_certificate(curve):
    guarantee = stated(curve)
    for form in (guarantee, guarantee.to_json(), pabi.Guarantee.from_json(guarantee.to_json())):
        verdict = pabi.verify(form)
        assert verdict.ok, verdict.reason
        assert verdict.scope == "iteration"
        assert verdict.assumptions == guarantee.assumptions
    assert guarantee.verified
    assert guarantee.epsilon(DELTA) == curve.epsilon(DELTA)


@every("curve", OPEN)
def test_any_other_form_has_none_and_composes_all_the_same(curve):
    guarantee = stated(curve)
    assert guarantee.certificate is None
    both = pabi.compose(run().guarantee(DELTA), guarantee)
    assert both.certificate is None
    assert both.epsilon(DELTA) >= guarantee.epsilon(DELTA)
    again = pabi.Guarantee.from_json(both.to_json())
    assert again.epsilon(DELTA) == both.epsilon(DELTA)


def test_every_kind_is_tried_here():
    def kinds(curve):
        parts = [factor for factor, _ in curve.factors] if isinstance(curve, t.Product) else []
        return {curve.kind}.union(*map(kinds, parts))

    tried = set().union(*map(kinds, (*CLOSED, *OPEN)))
    assert tried == set(t.TradeOff._table.kinds)


def test_the_assumptions_say_that_nobody_derives_it():
    guarantee = stated(t.Laplace(0.5), assumptions=("the noise is secret",))
    sentence = stated_sentence(NAMED["method"], NAMED["source"])
    assert guarantee.assumptions == (sentence, "the noise is secret")
    assert "no checker derives it" in sentence
    assert NAMED["method"] in str(guarantee)


def test_what_states_no_mechanism_is_refused():
    listed = t.PrivacyLossDistribution([0.9, 0.1], [0.5, 0.5], "add")
    curves = [lambda alpha: 1.0 - alpha, 0.5, t.PoissonSubsampled(1.0, 0.1, "remove"), listed]
    wrong = {"tradeoff": curves, "adjacency": ["add_remove"], "method": ["", None], "source": [" "]}
    wrong |= {"assumptions": ["one sentence", ("one", 2)], "unit": ["household"]}
    given = {"tradeoff": t.Gaussian(0.3)} | NAMED
    refuses(lambda **changes: pabi.Guarantee.from_tradeoff(**given | changes), wrong)
    assert stated(t.Laplace(0.2), unit="user").certificate is None


# Certificates: what follows from the function is proven, alterations are refused.


def in_file(curve=None):
    return json.loads(stated(curve or t.Laplace(0.5)).to_json())


def test_another_function_than_is_stated_is_refused():
    """Or one order of the data sets, or one that stands beside the proof alone."""
    for place, curve in (
        ("tradeoff", {"kind": "laplace", "epsilon": 0.4, "probability": 1.0}),
        ("tradeoff", {"kind": "laplace", "epsilon": 0.5, "probability": 0.1}),
        ("tradeoff", {"kind": "bounded_range", "epsilon": 0.5}),
        ("claim", {"kind": "laplace", "epsilon": 0.5, "probability": 0.1}),
        (
            "claim",
            {"kind": "poisson_subsampled", "mu": 1.0, "probability": 0.1, "direction": "remove"},
        ),
    ):
        data = in_file()
        assert pabi.verify(data).ok
        if place == "claim":
            data["certificate"]["claim"]["tradeoff"] = curve
        else:
            data["tradeoff"] = curve
        assert not pabi.verify(data).ok, (place, curve)


def test_a_composition_with_it_is_about_steps_as_stated():
    moments = pabi.NoisySecondMoments(1000, 2, 1.0, noise_std=20.0, adjacency="zero_out")
    own = moments.guarantee(DELTA)
    both = pabi.compose(own, stated(t.Laplace(0.5)))
    verdict = pabi.verify(both)
    assert verdict.ok, verdict.reason
    assert verdict.scope == "iteration"
    less = json.loads(both.to_json())
    less["tradeoff"] = own.curve.to_dict()
    less["mu"] = own.mu
    assert not pabi.verify(less).ok


@pytest.mark.parametrize("epsilon", [1e-9, 0.2, 3.0, 300.0, 700.0])
def test_the_checker_finds_the_gaussian_below_that_the_ledger_charges(epsilon, tmp_path):
    """Of an adaptive composition: with the exact charge it verifies, with a little less it does not."""
    ledger = pabi.Ledger(tmp_path / "a.ledger", epsilon=5000.0, delta=1e-5)
    ledger.spend(stated(t.Laplace(epsilon)))
    data = json.loads(ledger.guarantee.to_json())
    assert pabi.verify(data).ok
    charge = ledger.report().entries[0].charge
    claimed = data["certificate"] | {"claim": {"mu": charge}}
    assert pabi.verify(claimed).ok
    assert not pabi.verify(claimed | {"claim": {"mu": charge * (1.0 - 1e-9)}}).ok


def test_a_gaussian_reads_as_what_it_is():
    verdict = pabi.verify(in_file(t.Gaussian(0.3)))
    assert verdict.mu == 0.3
    assert verdict.names == (("noisy histogram", "the statistics office"),)

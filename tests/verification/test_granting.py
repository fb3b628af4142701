"""The kernel grants what is proven of the very description, and nothing else."""

import copy
import json
import logging
import math
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi import Cyclic, Loss, Modulus, NoisyIteration, NoisySGD
from pabi.account import best
from pabi.account.analyses import RUNS, Analysis, composition
from pabi.describe.langevin import by_cells
from pabi.tradeoff import Gaussian
from pabi.tradeoff.certificate import Certificate
from pabi.verification.arithmetic import Refused
from pabi.verification.granting import grant
from support.certificates import forged
from support.every_case import Agreeable, every

DELTA = 1e-5
RUN = NoisySGD(
    Loss.logistic(1.0, l2=0.1), n=40, batches=Cyclic(10), epochs=3, step_size=0.5, noise_std=0.5
)
RANDOM = replace(RUN, batches=pabi.FixedSize(10), epochs=1)
STEPS = {"step_sensitivity": [1.0, 0.5, 0.0], "step_noise_std": [1.0, 2.0, 1.0]}
LINEAR = NoisyIteration([0.9, 0.8, 0.7], **STEPS, diameter=2.0, start=0.5)
ALIKE = NoisyIteration(0.9, 1.0, 2.0, steps=30)
BENT = NoisyIteration(moduli=Modulus.sqrt(0.9, 0.1), **STEPS)
LOG = NoisyIteration(moduli=Modulus.from_function(math.log1p), **STEPS)
COOLING = pabi.LangevinDiffusion(
    Loss.logistic(1.0, l2=0.5), n=50, inverse_temperature=np.linspace(5.0, 20.0, 30), time=3.0
)


def proposed(description, name, position=None):
    (answer,) = best.outcomes(description, DELTA, position, only=name)
    return answer.proposal


def edited(proposal, edits):
    """The same, but that its certificate is written with these edits."""
    other, body = copy.copy(proposal), forged(proposal.written(), edits)
    other.__dict__["written"] = lambda: body
    return other


def test_what_is_granted_is_what_was_found():
    """Whatever search makes of its payments, or claims where less is proven; more may be claimed."""
    honest = proposed(RUN, "shifted interpolation")
    for factor in (0.0, 0.5, 1.0, 1.5):
        found = grant(RUN, replace(honest, curve=Gaussian(factor * honest.curve.mu)))
        assert found.mu == pytest.approx(honest.curve.mu, rel=1e-11)
        assert (found.method, found.unit) == (honest.theorem, "record")
        assert found.proof is found.certificate
        assert found.verified
        assert any("every earlier iterate stays hidden" in said for said in found.assumptions)
    more = grant(RUN, edited(honest, f'claim = {{"mu": {1.5 * honest.curve.mu}}}'))
    assert more.mu == 1.5 * honest.curve.mu


@every("description", [RUN, RANDOM, LINEAR, ALIKE, BENT, LOG])
def test_a_claim_is_what_is_proven_and_less_is_refused(description):
    """In a file, which is read back, and by the kernel."""
    for answer in best.outcomes(description, DELTA):
        if answer.proposal is None:
            continue
        payload = answer.guarantee.certificate.payload
        (kind,) = payload["claim"]
        assert answer.guarantee.verified, answer.name
        stated = f"claim = {json.dumps(payload['claim'])}"
        assert grant(description, edited(answer.proposal, stated)).verified
        with pytest.raises(Refused):
            grant(description, edited(answer.proposal, f"{stated}; claim.{kind} *= 0.999"))
        if description is not RANDOM:  # whose factors take longer to read
            assert pabi.verify(answer.guarantee.to_json()).ok
            assert not pabi.verify(forged(payload, f"claim.{kind} *= {1 - 2e-12}")).ok


UNKNOWN = Modulus.from_function(lambda z: 1.001 * math.log1p(z))
SHIFTED = {"start": 0.7}, {"diameter": 1.9}, {"step_sensitivity": 1.1}, {"step_noise_std": 1.9}
STEEPER = ({"contraction": 0.95},)
OTHERS = {
    "shifted interpolation": [(LINEAR, SHIFTED + STEEPER), (ALIKE, SHIFTED + STEEPER)],
    "composition": [(x, SHIFTED[1:]) for x in (replace(LINEAR, start=0.0), ALIKE, BENT, LOG)],
    "nonlinear shifts": [
        (BENT, (*SHIFTED, {"moduli": Modulus.sqrt(0.9, 0.11)}, {"moduli": LOG.moduli})),
        (LOG, (*SHIFTED, {"moduli": UNKNOWN}, {"moduli": BENT.moduli})),
    ],
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_proof_of_other_steps_is_refused(name):
    for iteration, changes in OTHERS[name]:
        proposal = proposed(iteration, name)
        assert grant(replace(iteration), proposal).verified
        for other in (*(replace(iteration, **change) for change in changes), RUN, COOLING):
            with pytest.raises(Refused, match="the proof is about"):
                grant(other, proposal)


def test_a_function_is_no_larger_than_is_stated():
    smaller = replace(LOG, moduli=Modulus.from_function(lambda z: 0.99 * math.log1p(z)))
    assert grant(smaller, proposed(LOG, "nonlinear shifts")).verified


def test_of_slopes_composition_needs_none():
    assert grant(replace(ALIKE, contraction=2.0), proposed(ALIKE, "composition")).verified


def test_another_description_is_refused():
    honest = proposed(RUN, "shifted interpolation")
    others = [replace(RUN, **x) for x in ({"n": 41}, {"noise_std": 0.6}, {"adjacency": "zero_out"})]
    for other in (*others, RANDOM, ALIKE, COOLING, pabi.Unlearning(RUN, [(3, 1)])):
        with pytest.raises(Refused, match="the proof is about"):
            grant(other, honest)


def test_records_in_other_batches_are_refused():
    """What holds of all records holds of some."""
    for name in ("composition", "shifted interpolation"):
        one, every = proposed(RUN, name, 1), proposed(RUN, name)
        assert grant(RUN, one, 1).mu == pytest.approx(one.curve.mu, rel=1e-11)
        assert grant(RUN, every, 1).mu == pytest.approx(every.curve.mu, rel=1e-11)
        for position in (None, 0, 2):
            with pytest.raises(Refused, match="about other records"):
                grant(RUN, one, position)


NUMBERS = [
    (RUN, "composition", "claim"),
    (RUN, "shifted interpolation", "cases.0.mu"),
    (RUN, "shifted interpolation", "cases.0.distance"),
    (RUN, "payments in advance", "cases.1.z.0"),
    (RANDOM, "one-sided shift", "plan.shares.0"),
    (RANDOM, "two-sided shift", "plan.payments.0"),
    (RANDOM, "composition", "claim.tradeoff.factors.0.mu"),
    (LINEAR, "shifted interpolation", "cases.0.q.0"),
    (LINEAR, "shifted interpolation", "steps.sigma.0"),
    (BENT, "nonlinear shifts", "cases.0.payments.0"),
    (LOG, "nonlinear shifts", "cases.0.values.0"),
    (LOG, "nonlinear shifts", "cases.0.at.0"),
]


@every(("description", "name", "place"), NUMBERS)
def test_what_is_no_number_is_refused(description, name, place):
    honest = proposed(description, name)
    for value in ("NaN", "Infinity", "-Infinity", '"nan"', "null", "[]"):
        with pytest.raises(Refused):
            grant(description, edited(honest, f"{place} = {value}"))


def test_the_header_is_not_for_search_to_write():
    """Of a path's cells slopes mean nothing, and what a diffusion assumes is said."""
    honest = proposed(COOLING, "path")
    flat = proposed(by_cells(COOLING, hidden=False), "shifted interpolation")
    with pytest.raises(Refused):
        grant(COOLING, edited(replace(flat, theorem="composition"), f'theorem = "{flat.theorem}"'))
    said = grant(COOLING, honest).assumptions
    for edit in ("assumes = []", 'adjacency = "zero_out"', "version = 1"):
        assert grant(COOLING, edited(honest, edit)).assumptions == said


def test_cells_are_called_what_they_are_cells_of():
    for name in ("path", "last point"):
        found = grant(COOLING, proposed(COOLING, name))
        constant = replace(COOLING, inverse_temperature=20.0)
        same = grant(constant, proposed(constant, name))
        assert (found.method, found.source) == (same.method, same.source)
        assert {*same.assumptions} <= {*found.assumptions}
        assert {*found.besides} <= {*found.assumptions}
        assert found.verified


# What only an enemy would write.


class Stubborn(dict):
    """A body that no header can be put on."""

    def __ror__(self, header):
        return Stubborn({**header, **self})

    def __or__(self, header):
        return self


def test_a_diffusion_whose_path_is_released_hides_nothing():
    """An iteration says nothing of what is released."""
    shown = replace(COOLING, release="path")
    with pytest.raises(Refused, match="hidden path"):
        grant(shown, proposed(COOLING, "last point"))
    assert grant(shown, proposed(COOLING, "path")).verified


def test_a_chain_is_about_all_records():
    chain = pabi.LangevinChain(
        Loss.logistic(1.0, l2=0.5),
        n=20,
        inverse_temperature=20.0,
        step_size=0.01,
        steps=8,
        batches=Cyclic(5),
    )
    honest = proposed(chain, "shifted interpolation")
    of_one = proposed(chain.run, "shifted interpolation", 0)
    assert of_one.curve.mu < 0.9 * honest.curve.mu
    one = Certificate.of(of_one, chain.adjacency).payload
    lower = edited(replace(honest, curve=of_one.curve), f'claim = {{"mu": {of_one.curve.mu}}}')
    lower.written().update(one=one)
    with pytest.raises(Refused, match="other records"):
        grant(chain, lower)


def test_a_theorem_is_one_word_throughout():
    warming = replace(COOLING, inverse_temperature=np.linspace(20.0, 5.0, 30))
    flat = proposed(by_cells(warming, hidden=False), "shifted interpolation")
    assert flat.curve.mu < 0.95 * proposed(warming, "path").curve.mu
    names = iter(["composition", *[flat.theorem] * 9])
    alternating = type("Alternating", (type(flat),), {"theorem": property(lambda _: next(names))})
    changed = copy.copy(flat)
    object.__setattr__(changed, "__class__", alternating)
    stubborn = copy.copy(replace(flat, theorem="composition"))
    body = Stubborn(flat.written() | {"theorem": flat.theorem})
    stubborn.__dict__["written"] = lambda: body
    for enemy in (changed, replace(flat, theorem=Agreeable(flat.theorem)), stubborn):
        with pytest.raises(Refused):
            grant(warming, enemy)


def test_what_is_written_changes_no_description():
    run = replace(RUN)
    loud = proposed(replace(RUN, noise_std=5.0), "shifted interpolation")
    body = loud.written()

    def written():
        object.__setattr__(run, "noise_std", 5.0)
        return body

    loud.__dict__["written"] = written
    with pytest.raises(Refused, match="another description"):
        grant(run, loud)


def test_a_curve_that_passes_for_another_is_not_read():
    """Readings are kept by the curve, and an enemy's equals whatever it likes."""

    class Small(Gaussian):
        def __eq__(self, other):
            return True

        __hash__ = Gaussian.__hash__

        def epsilon(self, delta):
            return 0.0

    honest = proposed(RUN, "shifted interpolation")
    with pytest.raises(pabi.InvalidInput, match="trade-off function"):
        replace(honest, curve=Small(honest.curve.mu)).epsilon(0.0123)
    assert grant(RUN, honest).epsilon(0.0123) > 0.1


def lie(monkeypatch, edits=""):
    """The first analysis hopes for next to nothing, and proves what these edits leave of a proof."""

    def apply(description, delta, position):
        honest = composition.apply(description, delta, position)
        lying = replace(honest, curve=Gaussian(1e-3))
        return edited(lying, edits) if edits else lying

    every = (Analysis("a lie", apply), *RUNS)
    monkeypatch.setattr(best, "analyses_of", lambda description: every)


@pytest.fixture
def lying(monkeypatch):
    lie(monkeypatch, "run.n = 41")


def test_the_next_best_is_taken_where_less_is_proven_than_hoped_for(monkeypatch):
    honest = RUN.guarantee(DELTA)
    lie(monkeypatch)
    assert RUN.guarantee(DELTA).curve == honest.curve
    assert not best.refused


def test_the_next_best_is_taken_where_the_best_is_refused(lying, caplog):
    honest = RUN.guarantee(DELTA)
    assert honest.method in [analysis.name for analysis in RUNS]
    assert honest.epsilon(DELTA) > 0.1
    assert honest.verified
    assert best.refused.pop("a lie") == 1
    explained = RUN.explain(DELTA)
    assert explained.best.epsilon(DELTA) == honest.epsilon(DELTA)
    assert [row.reason for row in explained.rows if row.method == "a lie"] == ["refused"]
    assert best.refused.pop("a lie") == 1
    assert "a lie of NoisySGD: refused" in [
        x.getMessage() for x in caplog.records if x.levelno == logging.WARNING
    ]


def test_where_all_is_refused_nothing_applies(lying):
    with pytest.raises(pabi.NotApplicable, match="a lie: refused"):
        best.best_of(best.outcomes(RUN, DELTA, only="a lie"), DELTA)
    assert best.refused.pop("a lie") == 1

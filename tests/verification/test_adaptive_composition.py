"""Certificates of ledgers: what proves a budget, and what does not."""

import json
import math

import pytest

import pabi
from pabi.tradeoff import Gaussian, RenyiDP
from pabi.tradeoff.certificate import Certificate
from pabi.tradeoff.gaussian_below import gaussian_below
from pabi.tradeoff.guarantee import INDEPENDENT
from pabi.tradeoff.selection import (
    ENTERED,
    adaptively_composed,
    refusing_above,
    refusing_divergences_above,
)
from support.certificates import LITTLE_LESS, all_refused, forged, forgeries, guarantee_of, refused
from support.ledgers import DELTA, release, that_may_fail

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


def sampled(batches=None):
    run = pabi.NoisySGD(
        pabi.Loss.unknown(),
        n=1000,
        batches=batches or pabi.FixedSize(100),
        steps=3,
        step_size=0.1,
        noise_multiplier=4.0,
        clip_norm=1.0,
    )
    return run.guarantee(DELTA)


def exponential():
    loss = pabi.Loss.strongly_convex(0.5, 1.0, gradient_bound=1.0)
    mechanism = pabi.ExponentialMechanism(
        loss, n=100, inverse_temperature=2.0, dimension=2, diameter=0.4
    )
    return mechanism.guarantee(DELTA)


PARTS = {
    "gaussian": lambda: release(0.3, "replace_one"),
    "mixture": lambda: guarantee_of("shuffle once"),
    "sampled": sampled,
    "exponential": exponential,
    "composed": lambda: pabi.compose(exponential(), release(0.2, "replace_one")),
    "bare iteration": lambda: guarantee_of("bare"),
}


def payload_of(parts, mu):
    proof = adaptively_composed("adaptive composition", parts, mu=mu)
    return json.loads(Certificate.of(proof, parts[0].adjacency).to_json())


@pytest.mark.parametrize("name", PARTS)
def test_the_least_bound_is_what_a_ledger_charges(name):
    """Accountant and checker find the Gaussian below by themselves."""
    part = PARTS[name]()
    mu = gaussian_below(part.curve)
    verdict = pabi.verify(payload_of([part], mu))
    assert verdict.ok, verdict.reason
    assert verdict.mu == mu
    refused(payload_of([part], mu * (1.0 - 1e-9)), "mu: the parts amount to more than the bound")


def test_all_parts_together():
    parts = [make() for make in PARTS.values()]
    total = math.sqrt(math.fsum(gaussian_below(part.curve) ** 2 for part in parts))
    verdict = pabi.verify(payload_of(parts, total * (1.0 + 1e-12)))
    assert verdict.ok, verdict.reason
    assert verdict.scope == "iteration"  # that of the bare one
    refused(payload_of(parts, total * LITTLE_LESS), "amount to more")


def test_assumptions_say_what_a_file_cannot_show():
    part = release(0.3)
    verdict = pabi.verify(payload_of([part, part], 0.7))
    own = (INDEPENDENT, ENTERED, refusing_above(0.7))
    assert verdict.assumptions == (*part.assumptions, *own)
    assert "0.7²" in verdict.assumptions[-1]


def ledger_of(mu):
    """The guarantee of a ledger with one entry."""
    part = release(0.3)
    return pabi.Guarantee(
        Gaussian(mu),
        "zero_out",
        "adaptive composition",
        "Smith, Thakurta 2022; docs, Theory, 16 (Theorem 21)",
        (*part.assumptions, INDEPENDENT, ENTERED, refusing_above(mu)),
        proof=adaptively_composed("adaptive composition", [part], mu=mu),
    )


def test_a_claim_of_what_was_spent_is_a_claim_of_another_budget():
    """Less than the budget is proven under the sentence that the budget was less."""
    guarantee = ledger_of(0.7)
    assert pabi.verify(guarantee).ok
    smaller = forged(json.loads(guarantee.to_json()), "tradeoff.mu = 0.31; mu = 0.31")
    refused(smaller, "tradeoff: the certificate proves less")
    smaller = forged(smaller, "certificate.claim.mu = 0.31")
    refused(smaller, "keeps silent about: the ledger refused", "above 0.31²")


def test_what_is_altered_is_refused():
    part = release(0.3)
    honest = payload_of([part, part], 0.7)
    assert pabi.verify(honest).ok
    for claim in (
        {"mu": "inf"}, {"mu": -0.7}, {"mu": True}, {"mu": 0.0}, {}, {"mixture": [[1.0, 0.7]]},
        {"mu": 0.7, "tradeoff": {"kind": "gaussian", "mu": 0.1}}, {"tradeoff": part.curve.to_dict()},
    ):  # fmt: skip
        refused(honest | {"claim": claim})
    other = release(0.3, "replace_one").certificate.payload
    refused(honest | {"parts": [honest["parts"][0], other]}, "part 2: expected adjacency")
    all_refused(
        honest,
        [
            ("parts = []", "nothing is composed"),
            ("budget = 0.7", "budget: unknown key"),
            ('reading = {"delta": 1e-5, "epsilon": 9.0}', "reading"),
            ("del claim", "claim is missing"),
            (f"parts.1.claim.mu *= {LITTLE_LESS}", "part 2: "),
        ],
    )


def test_what_may_fail_is_below_nothing():
    refused(payload_of([release(0.1, "replace_one"), that_may_fail()], 1e6), "part 2: no Gaussian")


def test_a_ledger_within_a_composition():
    both = pabi.compose(ledger_of(0.4), release(0.3))
    assert pabi.verify(both).ok
    assert both.mu == pytest.approx(0.5)


# Rényi divergences of one order.

ORDER = 6.0
CHARGED = PARTS | {
    "poisson": lambda: sampled(pabi.Poisson(100)),
    "a selection": lambda: pabi.select(release(0.3, "replace_one"), 5.0),
    "a stated divergence": lambda: pabi.Guarantee.from_tradeoff(
        RenyiDP(8.0, 0.25), adjacency="replace_one", method="theirs", source="they"
    ),
}


def of_divergences(parts, order, rho):
    tradeoff = RenyiDP(order, rho).to_dict()
    return adaptively_composed("adaptive composition of divergences", parts, tradeoff=tradeoff)


def payload_of_order(parts, rho, order=ORDER):
    proof = of_divergences(parts, order, rho)
    return json.loads(Certificate.of(proof, parts[0].adjacency).to_json())


@pytest.mark.parametrize("name", CHARGED)
def test_the_least_bound_on_divergences_is_what_a_ledger_charges(name):
    """Accountant and checker find the divergence by themselves, the one by quadrature and rounded up."""
    part = CHARGED[name]()
    rho = part.rdp(ORDER)
    verdict = pabi.verify(payload_of_order([part], rho))
    assert verdict.ok, verdict.reason
    assert verdict.mu is None
    refused(payload_of_order([part], rho * (1.0 - 1e-6)), "rho: the parts amount to more than")


def test_divergences_of_all_parts_together():
    parts = [make() for make in CHARGED.values()]
    total = math.fsum(part.rdp(ORDER) for part in parts)
    verdict = pabi.verify(payload_of_order(parts, total * (1.0 + 1e-12)))
    assert verdict.ok, verdict.reason
    refused(payload_of_order(parts, total * LITTLE_LESS), "amount to more")


def ledger_of_order(rho=1.0, order=ORDER, bound=None):
    """The guarantee of a ledger with one entry; `bound`: what its sentence says."""
    part = release(0.3)
    return pabi.Guarantee(
        RenyiDP(order, rho),
        "zero_out",
        "adaptive composition of divergences",
        "Feldman, Zrnic 2021; docs, Theory, 16 (Theorem 22)",
        (
            *part.assumptions,
            INDEPENDENT,
            ENTERED,
            refusing_divergences_above(*(bound or (order, rho))),
        ),
        tuned_at=DELTA,
        proof=of_divergences([part], order, rho),
    )


def test_a_guarantee_of_divergences_says_its_order_and_its_bound():
    guarantee = ledger_of_order()
    verdict = pabi.verify(guarantee)
    assert verdict.ok, verdict.reason
    assert verdict.assumptions == guarantee.assumptions
    epsilon, delta = verdict.reading
    assert delta == DELTA
    assert epsilon == guarantee.epsilon(DELTA)
    assert verdict.product.epsilon(DELTA) <= epsilon
    assert verdict.product.epsilon(0.1 * DELTA) <= guarantee.epsilon(0.1 * DELTA)
    refused(ledger_of_order(bound=(ORDER, 0.9)), "keeps silent about: the ledger refused")
    refused(ledger_of_order(bound=(7.0, 1.0)), "keeps silent about: the ledger refused")


FORGED = forgeries("""
divergences | tradeoff.rho = 0.5 | tradeoff: the certificate proves less
    | tradeoff.order = 9.0 | tradeoff: the certificate proves less
    | tradeoff.order = 5.0 | tradeoff: the certificate proves less
    | certificate.claim.tradeoff.rho = 0.5 | keeps silent about
    | certificate.claim.tradeoff.rho = 0.2 | the parts amount to more
    | certificate.claim.tradeoff.order = 9.0 | tradeoff: the certificate proves less
    | certificate.claim.tradeoff.order = 30.0 | the parts amount to more
    | certificate.theorem = "adaptive composition" | the claim
    | certificate.theorem = "composed" |
    | certificate.parts.0.run.noise_std = 0.5 |
    | method = "adaptive composition" | method:
    | epsilon = 0.5 | epsilon
""")


def test_a_forged_file_of_divergences_is_refused():
    data = json.loads(ledger_of_order().to_json())
    all_refused(data, FORGED["divergences"])
    refused(data | {"source": json.loads(ledger_of(0.7).to_json())["source"]}, "method: ")


def test_what_is_altered_in_claims_of_divergences_is_refused():
    part = release(0.3)
    honest = payload_of_order([part, part], 1.0)
    assert pabi.verify(honest).ok
    curve = {"kind": "renyi_dp", "order": ORDER, "rho": 1.0}
    for change in (
        {"rho": "inf"}, {"rho": -1.0}, {"rho": True}, {"rho": 0.0}, {"rho": None}, {"order": 1.0},
        {"order": "inf"}, {"order": True}, {"order": 0.5}, {"kind": "gaussian"}, {"mu": 1.0},
        {"kind": "best"},
    ):  # fmt: skip
        refused(honest | {"claim": {"tradeoff": curve | change}})
    for claim in ({}, {"mu": 0.7}, {"rho": 1.0, "order": ORDER}, {"product": curve}):
        refused(honest | {"claim": claim})
    twice = {"kind": "product", "factors": [curve | {"rho": 0.5, "count": 2}]}
    refused(honest | {"claim": {"tradeoff": twice}})
    refused(honest | {"claim": {"tradeoff": {"kind": "gaussian", "mu": 0.1}}})
    refused(honest | {"reading": {"delta": DELTA, "epsilon": 0.1}}, "reading")
    refused(honest | {"parts": []}, "nothing is composed")


def test_two_ledgers_are_not_one_of_the_sum():
    """What composes is listed one by one: a claim of the sum is not what two such curves imply."""
    one = ledger_of_order(0.4)
    both = pabi.compose(one, one)
    assert pabi.verify(both).ok
    data = json.loads(both.to_json())
    data["tradeoff"] = RenyiDP(ORDER, 0.4).to_dict()
    refused(data)
    data["tradeoff"] = RenyiDP(ORDER, 0.8).to_dict()
    refused(data)


def test_what_has_no_divergence_is_refused():
    failing = that_may_fail()
    refused(payload_of_order([release(0.1, "replace_one"), failing], 1e6), "part 2: no finite")
    stated = CHARGED["a stated divergence"]()
    refused(payload_of_order([stated], 9.0, order=8.5), "part 1: no finite divergence of order 8.5")


def test_a_ledger_of_divergences_within_others():
    inner, part = ledger_of_order(), release(0.3)
    both = pabi.compose(inner, part)
    verdict = pabi.verify(both)
    assert verdict.ok, verdict.reason
    assert both.epsilon(DELTA) >= inner.epsilon(DELTA)
    outer = payload_of_order([inner, part], inner.rdp(4.0) + part.rdp(4.0), order=4.0)
    assert pabi.verify(outer).ok
    refused(payload_of_order([inner], 9.0, order=7.0), "no finite divergence of order 7.0")
    assert pabi.verify(inner.for_groups(2)).ok

"""Certificates of chains, diffusions and exponential mechanisms: accepted, and refused when altered."""

import pytest

import pabi
from pabi.describe.losses import Loss
from support.certificates import all_refused, forged, forgeries, refused
from support.falsification.edits import at, places

DISSIPATIVE = Loss.dissipative(0.2, 0.5, 1.0)
BOUNDED = Loss.strongly_convex(0.5, 2.0, gradient_bound=15.0)


def described():
    common = {"n": 100, "inverse_temperature": 2.0}
    over = {**common, "time": 9.0, "gradient_gap": 0.3}
    chains = {**common, "step_size": 0.01, "steps": 300}
    rounds = {"n": 1000, "dimension": 2, "diameter": 10.0, "epsilons": [0.2, 0.3, 0.5]}
    strong = Loss.strongly_convex(0.1, 1.0, gradient_bound=1.0)
    return {
        "last point": pabi.LangevinDiffusion(BOUNDED, **over),
        "small set": pabi.LangevinDiffusion(BOUNDED, **over, diameter=0.4),
        "convex": pabi.LangevinDiffusion(Loss.lipschitz(1.0), **over, diameter=0.7),
        "monotone": pabi.LangevinDiffusion(Loss.saddle(1.0), **over, diameter=0.7),
        "expanding": pabi.LangevinDiffusion(Loss.nonconvex(0.5), **over, diameter=0.7),
        "dissipative": pabi.LangevinDiffusion(DISSIPATIVE, **over | {"time": 12.0}),
        "dissipative for long": pabi.LangevinDiffusion(DISSIPATIVE, **over | {"time": 300.0}),
        "dissipative set": pabi.LangevinDiffusion(
            DISSIPATIVE, **over | {"time": 30.0}, diameter=0.5
        ),
        "dissipative draw": pabi.ExponentialMechanism(
            DISSIPATIVE, **common, dimension=2, diameter=9.0, gradient_gap=0.01
        ),
        "path": pabi.LangevinDiffusion(Loss.unknown(), **over),
        "varying": pabi.LangevinDiffusion(BOUNDED, **over | {"inverse_temperature": [1.0, 3.0]}),
        "mechanism": pabi.ExponentialMechanism(BOUNDED, **common, dimension=2, diameter=0.4),
        "range": pabi.ExponentialMechanism(
            Loss.unknown(gradient_bound=1.0), n=100, dimension=2, diameter=1.3, epsilon=0.7
        ),
        "rounds": pabi.IteratedExponentialMechanism(strong, **rounds, failure=0.01),
        "split": pabi.IteratedExponentialMechanism(strong, **rounds, failure=0.01, split=400),
        "chain": pabi.LangevinChain(BOUNDED, **chains),
        "chains": pabi.LangevinChain(BOUNDED, **chains, gradient_gap=0.2, chains=7),
        "projected": pabi.LangevinChain(
            Loss.lipschitz(1.0), **chains | {"steps": 3000}, prox=pabi.prox.ball(0.05), chains=5
        ),
        "released": pabi.LangevinChain(BOUNDED, **chains, release="path"),
        "batches": pabi.LangevinChain(BOUNDED, **chains, batches=pabi.Cyclic(10)),
        "shuffled": pabi.LangevinChain(BOUNDED, **chains, batches=pabi.ShuffleOnce(10)),
        "sampled": pabi.LangevinChain(
            BOUNDED, **chains | {"steps": 30}, batches=pabi.FixedSize(10)
        ),
    }


DESCRIBED = described()


@pytest.fixture(scope="module")
def guarantees():
    return {name: one.guarantee(1e-3) for name, one in DESCRIBED.items()}


FORGED = forgeries("""
last point | run.inverse_temperature = 2.0001 |
    | run.time = 9.5 |
    | run.gradient_gap = 0.3001 |
    | run.release = "path" |
    | run.loss.strong_convexity = 0.4999 |
    | window = 1.0 |
    | theorem = "Gibbs measure" |
small set | run.diameter = 0.4001 |
    | run.diameter = null |
    | window = 9.1 |
    | window = 0.0 |
    | window = 0.5 |
    | window = -1.0 |
convex | run.diameter = 0.71 |
    | run.inverse_temperature = [2.0, 2.0] |
expanding | run.loss.smoothness = 0.51 |
    | window = 8.0 |
dissipative | run.loss.offset = 0.201 |
    | run.loss.smoothness = 1.01 |
    | run.loss.rate = 0.49 |
    | run.time = 40.0 |
    | run.time = 5.0 |
    | distance = 0.5 |
    | distance = 3.0 |
    | distance = 0.0 |
dissipative for long | distance = 0.9 |
dissipative set | run.diameter = 0.51 |
    | run.time = 0.1 |
dissipative draw | run.loss.offset = 0.201 |
path | theorem = "last point"; window = null |
    | run.gradient_gap = null |
varying | run = {"kind": "langevin_diffusion"} |
mechanism | run.diameter = 0.41 |
    | run.n = 99 |
    | theorem = "composition" |
range | run.epsilon = 0.71 |
    | theorem = "bounded range and Gibbs measure" |
rounds | del rounds.-1 |
    | rounds.1.0 = 1.0 |
    | rounds.1.1 = 1.0 |
    | run.epsilons = [0.2, 0.3, 0.6] |
    | run.loss.gradient_bound = 1.01 |
split | run.split = null |
    | run.split = 700 |
chain | run.chains = 2 |
    | run.steps = 301 |
    | run.step_size = 0.0101 |
    | run.inverse_temperature = 2.01 |
    | run.n = 99 |
    | run.adjacency = "zero_out" |
    | run.release = "path" |
    | run.gradient_gap = 0.1 |
    | run.batches = {"kind": "cyclic", "size": 10} |
    | one.run.noise_std = 10.0 |
    | one.run.noise_multiplier = 10.0; one.run.noise_std = null |
    | one.run.clip_norm = 1.0 |
    | one.run.update = "other" |
    | one.run.cooldown_steps = 1 |
    | one.theorem = "composition" |
    | del one |
chains | run.chains = 8 |
    | run.gradient_gap = 0.21 |
    | one.run.gradient_sensitivity = 19.9 |
projected | run.prox = {"kind": "ball", "radius": 0.06} |
    | one.run.prox = null |
""")


def test_one_chain_is_about_records_as_the_description_is():
    chain = pabi.LangevinChain(
        pabi.Loss.logistic(1.0, l2=0.5), n=20, inverse_temperature=20.0, step_size=0.01, steps=8
    )
    payload = chain.guarantee(1e-5).certificate.payload
    refused(forged(payload, 'one.run.unit = "user"; one.unit = "user"'), "^unit")


def test_forgeries_and_smaller_claims_are_refused(guarantees):
    for name, guarantee in guarantees.items():
        payload = guarantee.certificate.payload
        all_refused(payload, FORGED.get(name, ()))
        if name not in ("shuffled", "sampled"):
            numbers = [
                (*path, key)
                for path in ((), *places(payload["claim"]))
                for key in ("mu", "epsilon")
                if isinstance(table := at(payload["claim"], path), dict) and key in table
            ]
            for factor in (1.0 - 1e-9, 1.0 + 1e-9):
                edits = [f"claim.{'.'.join(map(str, path))} *= {factor}" for path in numbers]
                assert pabi.verify(forged(payload, ";".join(edits))).ok == (factor > 1), name
    split = guarantees["split"].certificate.payload
    (pure,) = [p for p in places(split) if p[-1] == "kind" and at(split, p) == "approx_dp"]
    place = ".".join(map(str, pure[:-1]))
    for edit in ("epsilon = 0.49", "delta = 0.1", 'kind = "bounded_range"'):
        refused(forged(split, f"{place}.{edit}"))


def test_a_guarantee_may_claim_only_what_is_proven(guarantees):
    table = guarantees["mechanism"].to_dict(certificate=True)
    gaussian = next(p for p in table["tradeoff"]["parts"] if p["kind"] == "gaussian")
    assert pabi.verify(table).ok
    gaussian["mu"] *= 0.99
    assert "the certificate proves less" in pabi.verify(table).reason
    alone = guarantees["mechanism"].to_dict(certificate=True)
    alone["tradeoff"], alone["mu"] = dict(gaussian), gaussian["mu"]
    assert not pabi.verify(alone).ok
    silent = guarantees["mechanism"].to_dict(certificate=True)
    silent["assumptions"] = silent["assumptions"][:-1]
    assert "keeps silent" in pabi.verify(silent).reason


def test_releases_of_every_kind_compose(guarantees):
    chosen = [guarantees[name] for name in ("last point", "mechanism", "rounds", "chains", "path")]
    together = pabi.compose(*chosen)
    verdict = pabi.verify(together)
    assert verdict.ok, verdict.reason
    assert together.verified
    assert together.epsilon(1e-3) <= pabi.compose(*chosen, chosen[0]).epsilon(1e-3)
    table = together.to_dict(certificate=True)
    table["tradeoff"] = pabi.compose(*chosen[:-1]).curve.to_dict()
    assert "proves less" in pabi.verify(table).reason

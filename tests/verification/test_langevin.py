"""Certificates of chains, diffusions and exponential mechanisms: accepted, and refused when altered."""

from __future__ import annotations

import copy
import json

import pytest

import pabi
from pabi.describe.losses import Loss

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


def test_accepted_after_reading(guarantees):
    for name, guarantee in guarantees.items():
        read = pabi.Guarantee.from_json(guarantee.to_json())
        assert not read.verified
        verdict = pabi.verify(read)
        assert verdict.ok, (name, verdict.reason)
        assert read.verified
        assert read.epsilon(1e-3) == guarantee.epsilon(1e-3)
        assert verdict.scope == ("iteration" if name == "varying" else "run")
        assert set(verdict.assumptions) <= set(guarantee.assumptions)
        assert read.mu == guarantee.mu == verdict.mu, name


def altered(guarantee, change):
    payload = copy.deepcopy(guarantee.certificate.payload)
    change(payload)
    return pabi.verify(json.dumps(payload))


def set_claim(factor):
    def change(payload):
        claim = payload["claim"]
        for part in parts_of(claim["tradeoff"]) if "tradeoff" in claim else (claim,):
            for name in ("mu", "epsilon"):
                if name in part:
                    part[name] *= factor

    return change


def parts_of(curve):
    yield curve
    for part in (*curve.get("parts", ()), *curve.get("factors", ())):
        yield from parts_of(part)


def test_a_smaller_claim_is_refused(guarantees):
    for name in DESCRIBED.keys() - {"shuffled", "sampled"}:
        assert not altered(guarantees[name], set_claim(1.0 - 1e-9)).ok, name
        assert altered(guarantees[name], set_claim(1.0 + 1e-9)).ok, name


def pure_of(payload):
    return next(p for p in parts_of(payload["claim"]["tradeoff"]) if p["kind"] == "approx_dp")


def in_run(**changes):
    return lambda payload: payload["run"].update(changes)


ALTERED = [
    ("last point", in_run(inverse_temperature=2.0001)),
    ("last point", in_run(time=9.5)),
    ("last point", in_run(gradient_gap=0.3001)),
    ("last point", in_run(release="path")),
    ("last point", lambda p: p["run"]["loss"].update(strong_convexity=0.4999)),
    ("last point", lambda p: p.update(window=1.0)),
    ("last point", lambda p: p.update(theorem="Gibbs measure")),
    ("small set", in_run(diameter=0.4001)),
    ("small set", in_run(diameter=None)),
    ("small set", lambda p: p.update(window=9.1)),
    ("small set", lambda p: p.update(window=0.0)),
    ("small set", lambda p: p.update(window=0.5)),
    ("small set", lambda p: p.update(window=-1.0)),
    ("convex", in_run(diameter=0.71)),
    ("convex", in_run(inverse_temperature=[2.0, 2.0])),
    ("expanding", lambda p: p["run"]["loss"].update(smoothness=0.51)),
    ("expanding", lambda p: p.update(window=8.0)),
    ("dissipative", lambda p: p["run"]["loss"].update(offset=0.201)),
    ("dissipative", lambda p: p["run"]["loss"].update(smoothness=1.01)),
    ("dissipative", lambda p: p["run"]["loss"].update(rate=0.49)),
    ("dissipative", lambda p: p["run"].update(time=40.0)),
    ("dissipative", lambda p: p.update(distance=0.5)),
    ("dissipative", lambda p: p.update(distance=3.0)),
    ("dissipative", lambda p: p.update(distance=0.0)),
    ("dissipative", lambda p: p["run"].update(time=5.0)),
    ("dissipative for long", lambda p: p.update(distance=0.9)),
    ("dissipative set", lambda p: p["run"].update(diameter=0.51)),
    ("dissipative set", lambda p: p["run"].update(time=0.1)),
    ("dissipative draw", lambda p: p["run"]["loss"].update(offset=0.201)),
    ("path", lambda p: p.update(theorem="last point", window=None)),
    ("path", in_run(gradient_gap=None)),
    ("varying", lambda p: p.update(run={"kind": "langevin_diffusion"})),
    ("mechanism", in_run(diameter=0.41)),
    ("mechanism", in_run(n=99)),
    ("mechanism", lambda p: p.update(theorem="composition")),
    ("range", in_run(epsilon=0.71)),
    ("range", lambda p: p.update(theorem="bounded range and Gibbs measure")),
    ("rounds", lambda p: p["rounds"].pop()),
    ("rounds", lambda p: p["rounds"][1].__setitem__(0, 1.0)),
    ("rounds", lambda p: p["rounds"][1].__setitem__(1, 1.0)),
    ("rounds", in_run(epsilons=[0.2, 0.3, 0.6])),
    ("rounds", lambda p: p["run"]["loss"].update(gradient_bound=1.01)),
    ("split", in_run(split=None)),
    ("split", lambda p: pure_of(p).update(epsilon=0.49)),
    ("split", lambda p: pure_of(p).update(delta=0.1)),
    ("split", lambda p: pure_of(p).update(kind="bounded_range")),
    ("split", in_run(split=700)),
    ("chain", in_run(chains=2)),
    ("chain", in_run(steps=301)),
    ("chain", in_run(step_size=0.0101)),
    ("chain", in_run(inverse_temperature=2.01)),
    ("chain", in_run(n=99)),
    ("chain", in_run(adjacency="zero_out")),
    ("chain", in_run(release="path")),
    ("chain", in_run(gradient_gap=0.1)),
    ("chain", in_run(batches={"kind": "cyclic", "size": 10})),
    ("chain", lambda p: p["one"]["run"].update(noise_std=10.0)),
    ("chain", lambda p: p["one"]["run"].update(noise_multiplier=10.0, noise_std=None)),
    ("chain", lambda p: p["one"]["run"].update(clip_norm=1.0)),
    ("chain", lambda p: p["one"]["run"].update(update="other")),
    ("chain", lambda p: p["one"]["run"].update(cooldown_steps=1)),
    ("chain", lambda p: p["one"].update(theorem="composition")),
    ("chain", lambda p: p.pop("one")),
    ("chains", in_run(chains=8)),
    ("chains", in_run(gradient_gap=0.21)),
    ("chains", lambda p: p["one"]["run"].update(gradient_sensitivity=19.9)),
    ("projected", in_run(prox={"kind": "ball", "radius": 0.06})),
    ("projected", lambda p: p["one"]["run"].update(prox=None)),
]


def test_altered_certificates_are_refused(guarantees):
    for i, (name, change) in enumerate(ALTERED):
        verdict = altered(guarantees[name], change)
        assert not verdict.ok, (i, name)
        assert "\n" not in verdict.reason


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

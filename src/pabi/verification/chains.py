"""Langevin chains: each is a run of noisy SGD, whose certificate is part of theirs."""

from __future__ import annotations

import math

from pabi.describe.files import from_dict
from pabi.describe.langevin import LangevinChain, chain_sentences
from pabi.describe.runs import NoisySGD
from pabi.verification.adjacency import read_adjacency
from pabi.verification.arithmetic import exact, root_up
from pabi.verification.bounds import JointBound
from pabi.verification.derivation import takes_plain_steps
from pabi.verification.drawn_runs import DrawnRun
from pabi.verification.factors.gaussians import Gaussians
from pabi.verification.limits import Refused
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.theorem import About, Check, Names, Payload, ProofCheck, Proven, Theorem


class Chains(About):
    """Chains that a description speaks of, and what was found of one; the certificate of one must be about
    the run that the description implies."""

    CALLED = "of a Langevin chain"

    def __init__(self, chain: LangevinChain, payload: Payload, check: Check) -> None:
        one = payload["one"]
        if one["theorem"] != payload["theorem"]:
            raise Refused(f"theorem: expected {payload['theorem']!r}, as of one chain")
        run = from_dict(one["run"])
        if type(run) is not NoisySGD:
            raise Refused("one: expected a run of noisy SGD")
        _check_same(chain, run)
        self.chain, self.one = chain, check(one)
        self.adjacency, self.nulls = read_adjacency(chain.adjacency), self.one.nulls


def _check_same(chain: LangevinChain, run: NoisySGD) -> None:
    """Refuse unless `run` takes the chain's steps, with no more noise and no less sensitivity."""
    for name in ("loss", "n", "batches", "steps", "adjacency", "diameter", "release"):
        if getattr(chain, name) != getattr(run, name):
            raise Refused(f"{name}: one chain's run differs from the description")
    of_chain, of_run = ((repr(p), getattr(p, "diameter", None)) for p in (chain.prox, run.prox))
    if of_chain != of_run:
        raise Refused("prox: one chain's run differs from the description")
    for name in ("clip_norm", "noise_multiplier"):
        if getattr(run, name) is not None:
            raise Refused(f"{name}: a Langevin chain has none")
    if run.cooldown_steps or not takes_plain_steps(run.update):
        raise Refused("update: a Langevin chain takes plain steps, all of them with data")
    # The chain multiplies the gradient by the double nearest to η·β: that is part of its description.
    if run.step_size != float(chain.step_size) * float(chain.inverse_temperature):
        raise Refused("step_size: expected step_size·inverse_temperature")
    if not isinstance(run.noise_std, float):
        raise Refused("noise_std: expected a number")
    sigma = exact(run.step_size) * exact(run.noise_std)
    if sigma * sigma > 2 * exact(chain.step_size):
        raise Refused("noise_std: expected at most √(2·step_size) on the iterate")
    stated, sensitivity = chain.gradient_gap, run.gradient_sensitivity
    if stated is None or sensitivity is None:
        enough = stated is None and sensitivity is None
    else:
        enough = exact(sensitivity) >= exact(stated) * chain.n
    if not enough:
        raise Refused("gradient_sensitivity: expected at least n·gradient_gap")


def _check(chains: Chains, payload: Payload) -> Proven:
    """What is proven of one chain, for all of them."""
    chain, one = chains.chain, chains.one
    assumptions = chain_sentences(chain, one.assumptions)
    if chain.chains == 1:
        return Proven(assumptions, one.proven)
    (alone,) = one.proven
    gaussians = alone.only(Gaussians)
    if gaussians is None or len(gaussians.parts) != 1:
        raise Refused("chains: several are checked for Gaussian bounds only")
    mu = gaussians.parts[0][1]
    many = mu if math.isinf(mu) else root_up(chain.chains * exact(mu) * exact(mu))
    return Proven(assumptions, (JointBound.gaussian(many),))


def _names(chains: Chains) -> tuple[Names, ...]:
    return chains.one.names


def of_runs(*, ordered: ProofCheck | None = None, drawn: ProofCheck | None = None) -> Theorem:
    """A theorem about runs of noisy SGD, and so about Langevin chains."""
    of: dict[type, ProofCheck] = {
        Chains: ProofCheck(("run", "claim", "one", "reading"), _check, _names)
    }
    if ordered is not None:
        of[OrderedRun] = ordered
    if drawn is not None:
        of[DrawnRun] = drawn
    return of

"""A reflected diffusion by fine steps of projected chains, accounted as the steps that are executed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pabi.analyses import composition
from pabi.budget.ledger import Ledger
from pabi.describe.accounted import about_gap, warn_of_large_delta
from pabi.describe.iteration import NoisyIteration
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.moduli import Linear, Modulus
from pabi.execute.hiding import Terms, Walk, checked, walk_from
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array, times_up
from pabi.sampling.chains import (
    TAKEN,
    Gradient,
    Walks,
    check_gradient,
    each_chain,
    langevin_on,
    repeated,
    starting_points,
    thinned,
)
from pabi.sampling.draws import Draws

if TYPE_CHECKING:
    from pabi.guarantees.guarantee import Guarantee


def diffusion(
    diffusion: LangevinDiffusion,
    gradient: Gradient,
    x0: ArrayLike,
    domain: Any = None,
    *,
    steps: int,
    chains: int = 1,
    thin: int = 1,
    random_state: int | np.random.Generator | None = None,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
) -> Draws:
    """Draws of the chain that follows `diffusion` by `steps` equal fine steps, with that chain's guarantee.

    With η = time/steps, step k is x ← Π(x − h_k∇L(x) + √(2η)Z), h_k = ηβ at the middle of the step and
    Π the projection on `domain`, which stands in for the reflection. With a constant temperature that is
    a `LangevinChain`, run by `langevin`. How far the law of such a chain is from the diffusion's is
    another matter (it shrinks with the steps, as √η where the boundary is felt), and no guarantee of the
    diffusion is claimed for it: `chain` of the result is what was accounted and executed.

    Parameters
    ----------
    diffusion : LangevinDiffusion
        Loss, temperature, time, adjacency, `release` and the diameter of the set.
    gradient : callable
        (chains, *shape) ↦ (chains, *shape): ∇L of the mean loss, as for `langevin`.
    x0 : array
        As for `langevin`.
    domain : pabi.prox.ball, box, …, optional
        The convex set, of a diameter that is at most the diffusion's; None only where it has none.
    steps : int
        Fine steps.
    chains : int
        How many are run, each with noise of its own.
    thin : int
        With `release="path"`: every `thin`-th iterate is returned, as for `langevin`.
    random_state : None, int or numpy Generator
        None (default): noise from a ChaCha generator keyed by the operating system. Anything else is for
        tests: a PrivacyWarning, and a guarantee that says so.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before data are read.

    Returns
    -------
    Draws
        What was released, its guarantee, and the chain or iteration of the fine steps.

    Raises
    ------
    InvalidInput
        `diffusion`, `steps`, `chains`, a `domain` whose diameter is larger than the diffusion's, an
        `inverse_temperature` that is not finite and ≥ 0 at all times; and as `langevin` does.
    NotApplicable
        No analysis covers the steps; nothing has then been computed from the data.
    BudgetExceeded
        Less is left in `ledger`; nothing has then been computed from the data.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, (2); docs, "Sampling".
    """
    terms = Terms(delta=delta, random_state=random_state, ledger=ledger)
    return diffusion_on(terms, diffusion, gradient, x0, domain, steps, chains, thin)


def diffusion_on(
    terms: Terms,
    diffusion: LangevinDiffusion,
    gradient: Gradient,
    x0: ArrayLike,
    domain: Any,
    steps: int,
    chains: int,
    thin: int,
) -> Draws:
    """What `diffusion` returns, on these terms."""
    validate.instance("diffusion", diffusion, LangevinDiffusion, "a pabi.LangevinDiffusion")
    validate.integer("steps", steps, at_least=1)
    validate.integer("chains", chains, at_least=1)
    _check_domain(diffusion, domain)
    if diffusion.constant:
        chain = LangevinChain(
            diffusion.loss,
            diffusion.n,
            inverse_temperature=diffusion.inverse_temperature,
            step_size=diffusion.time / steps,
            steps=steps,
            gradient_gap=diffusion.gradient_gap,
            adjacency=diffusion.adjacency,
            prox=domain,
            chains=chains,
            release=diffusion.release,
        )
        return langevin_on(terms, chain, gradient, x0, thin)
    every = thinned(diffusion.release, thin, steps)
    enforced = check_gradient(gradient, diffusion.loss, diffusion.n, diffusion.n)
    sizes, noise_std = _fine_steps(diffusion, steps)
    iteration = executed(diffusion, sizes, noise_std, getattr(domain, "diameter", None))
    start = starting_points(x0, chains)
    each_chain(domain, start.shape[1:])  # refuses maps of other points
    walk = _walk(diffusion, sizes, noise_std, domain, start)
    proven = _guarantee(diffusion, iteration, walk, enforced, terms.delta)
    walks = Walks(
        gradient=gradient,
        l2=diffusion.loss.l2,
        run=None,
        prox=domain,
        start=start,
        sizes=sizes,
        noise_std=noise_std,
        thin=every,
    )
    return walks.released(terms, proven, iteration, diffusion.release)


def _check_domain(diffusion: LangevinDiffusion, domain: Any) -> None:
    enforced = getattr(domain, "diameter", None)
    if diffusion.diameter is None or (enforced is not None and enforced <= diffusion.diameter):
        return
    shown = "none" if domain is None else repr(domain)
    raise InvalidInput(
        "domain",
        f"expected one of diameter at most {diffusion.diameter!r}, the diffusion's, got {shown}",
    )


def _fine_steps(diffusion: LangevinDiffusion, steps: int) -> tuple[Array, float]:
    """(h_k of every step, the standard deviation of its noise)."""
    length = diffusion.time / steps
    beta = diffusion.inverse_temperature
    middles = np.arange(steps) + 0.5
    if isinstance(beta, np.ndarray):
        values = beta[(middles * (len(beta) / steps)).astype(np.intp)]
    else:
        values = np.array([float(beta(t)) for t in (middles * length).tolist()])
        if not np.all(np.isfinite(values) & (values >= 0.0)):
            raise InvalidInput("inverse_temperature", "expected finite numbers ≥ 0 at all times")
    return length * values, math.sqrt(2.0 * length)


def executed(
    diffusion: LangevinDiffusion, sizes: Array, noise_std: float, diameter: float | None
) -> NoisyIteration:
    """The steps x ← Π(x − h_k∇L(x) + σZ) in normal form.

    These are ω_k of a gradient step of size h_k, s_k = h_kΔ rounded up, and the very σ that is drawn with.
    """
    loss = diffusion.loss
    of_size = {
        h: loss.modulus(h) if h > 0.0 else Modulus.linear(1.0) for h in np.unique(sizes).tolist()
    }
    moduli = [of_size[h] for h in sizes.tolist()]
    steps: dict[str, Any] = {"moduli": moduli}
    if all(isinstance(m, Linear) for m in of_size.values()):
        steps = {"contraction": np.array([m.linear for m in moduli])}
    return NoisyIteration(
        step_sensitivity=times_up(sizes, diffusion.gap),
        step_noise_std=noise_std,
        diameter=diameter,
        adjacency=diffusion.adjacency,
        **steps,
    )


def _guarantee(
    diffusion: LangevinDiffusion,
    iteration: NoisyIteration,
    walk: Walk,
    enforced: bool,
    delta: float,
) -> Guarantee:
    """The guarantee of all chains: of their last iterates, or by composition of their paths."""
    warn_of_large_delta(diffusion.n, delta)
    sentences = [about_gap(diffusion.gradient_gap, diffusion.loss)]
    if diffusion.release == "path":
        one = replace(composition.apply(iteration, delta), tuned_at=delta)
    else:
        one = iteration.guarantee(delta)
        sentences += diffusion.loss.sentences
    one = checked(one.assuming(*sentences), walk, diffusion.gradient_gap is None)
    return repeated(one if enforced else one.assuming(TAKEN), walk.paths)


def _walk(
    diffusion: LangevinDiffusion, sizes: Array, noise_std: float, domain: Any, starts: Array
) -> Walk:
    """The walks that the chains take from `starts`, (chains, *shape)."""
    bound = diffusion.loss.gradient_bound if diffusion.gradient_gap is None else None
    return walk_from(
        starts,
        len(sizes),
        sizes,
        l2=diffusion.loss.l2,
        gradient=bound or 0.0,
        noise_std=noise_std,
        prox=domain,
    )

"""Certificates of bare iterations: the steps are taken as stated, the arithmetic is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pabi.describe.iteration import iteration_sentences
from pabi.verification.adjacency import read_adjacency
from pabi.verification.arithmetic import Repeated, closed, columns, groups
from pabi.verification.bounds import JointBound
from pabi.verification.factors.gaussians import read_mu
from pabi.verification.limits import Refused, positions
from pabi.verification.subjects import Iteration
from pabi.verification.theorem import Names, Payload, Proven

# Of a certificate beside those that all have.
KEYS = ("run", "claim", "diameter", "start", "steps", "groups", "cases")


def claimed_mu(
    payload: Payload, *, cases: int, case: tuple[str, ...], steps: tuple[str, ...]
) -> float:
    """The μ that is claimed, if the certificate has so many `cases` with no other keys than `case`, and its
    steps no other columns than `steps`."""
    closed("the claim", payload["claim"], ("mu",))
    if "steps" in payload:
        closed("steps", payload["steps"], steps)
    if "steps" in payload and "groups" in payload:
        raise Refused("groups: the steps are stated twice")
    if not isinstance(payload["cases"], list) or len(payload["cases"]) != cases:
        raise Refused(f"cases: expected a list of {cases}")
    for one in payload["cases"]:
        closed("a case", one, case)
    return read_mu(payload["claim"]["mu"])


def proven(iteration: Iteration, mu: float, *, hidden: bool) -> Proven:
    """The proof of μ for an iteration whose steps are taken as stated, with what it assumes."""
    assumptions = iteration_sentences(
        read_adjacency(iteration.adjacency),
        iteration.diameter,
        iteration.start,
        hidden,
        unit=iteration.unit,
    )
    return Proven(assumptions, (JointBound.gaussian(mu),))


def named_with_cells(
    method: str, source: str, diffusion: Names
) -> Callable[[Iteration], tuple[Names, ...]]:
    """A name for every iteration, and that of a `diffusion` for those that may be its cells."""
    names = Names(method, source)
    return lambda iteration: (names, diffusion) if iteration.followed else (names,)


def written_out(payload: Payload) -> tuple[Any, Any, Any]:
    """Arrays of the slopes, the sensitivities and the noises of all steps."""
    if "steps" in payload:
        c, s, sigma = columns(payload["steps"])
        return c, s, sigma
    return _expanded(groups(payload["groups"]))


def _expanded(stated: list[Repeated]) -> tuple[Any, Any, Any]:
    positions("steps", sum(m * sum(x.n for x in stretches) for m, stretches in stated))
    parts = [
        np.tile(np.repeat([x[1:] for x in stretches], [x.n for x in stretches], axis=0), (times, 1))
        for times, stretches in stated
    ]
    table = np.concatenate(parts)
    return table[:, 0], table[:, 1], table[:, 2]

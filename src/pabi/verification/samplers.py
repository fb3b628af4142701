"""Diffusions and exponential mechanisms: what their descriptions say, in exact arithmetic."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from flint import arb, fmpq

from pabi.describe.langevin import LangevinDiffusion
from pabi.describe.losses import Loss
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.verification.adjacency import gradients_changed, read_adjacency
from pabi.verification.arithmetic import exact
from pabi.verification.limits import Refused
from pabi.verification.losses import facts_of
from pabi.verification.theorem import About

D = TypeVar("D", LangevinDiffusion, ExponentialMechanism, IteratedExponentialMechanism)


class _Sampler(About, Generic[D]):
    """A description of draws from a Gibbs density, or of a way to it."""

    def __init__(self, description: D) -> None:
        self.description: D = description
        self.loss, self.facts = description.loss, facts_of(description.loss)
        self.adjacency = read_adjacency(description.adjacency)
        self.nulls = self.facts.holds_of_zero

    def gap(self, n: int | None = None) -> Any:
        """Δ: what adjacent gradients of the mean loss differ by at most; `n`: of so many records, whatever
        is stated."""
        stated = self.description.gradient_gap
        if stated is not None and n is None:
            return exact(stated)
        if self.facts.bound is None:
            raise Refused("gradient_gap: nothing bounds one record's gradient")
        records = self.description.n if n is None else n
        return (
            self.facts.bound
            * gradients_changed(read_adjacency(self.description.adjacency))
            / records
        )

    @property
    def curvature(self) -> Any:
        """The least curvature m of the mean loss with its regulariser, a rational."""
        if self.facts.curvature is not None:
            lo = self.facts.curvature[0]
        elif self.facts.convex or self.facts.monotone:
            lo = fmpq(0)
        else:
            raise Refused("loss: nothing is known of its curvature")
        return lo + exact(self.loss.l2)

    @property
    def curvature_of_density(self) -> Any:
        """The least curvature m of the mean loss. Refused where only the field is monotone."""
        if self.facts.monotone:
            raise Refused("loss: nothing is known of the curvature of a convex–concave function")
        return self.curvature


class Diffusion(_Sampler[LangevinDiffusion]):
    """A Langevin diffusion."""

    CALLED = "of a diffusion"


class Mechanism(_Sampler[ExponentialMechanism]):
    """One exponential mechanism."""

    CALLED = "of an exponential mechanism"


class IteratedMechanism(_Sampler[IteratedExponentialMechanism]):
    """Exponential mechanisms in turn."""

    CALLED = "of an exponential mechanism"


class PartingRate:
    """The rate β(Δ + g(z)), g(z) = min{Mz, λ/z − κz}, at which paths on a dissipative loss part at most."""

    def __init__(self, loss: Loss, gap: Any, m: Any) -> None:
        facts = facts_of(loss)
        if facts.dissipative is None or not m < 0:
            raise Refused("loss: expected one that is dissipative and not convex")
        offset, rate = facts.dissipative
        self.gap, self.big = arb(gap), arb(-m)
        self.offset, self.rate = arb(offset), arb(rate + exact(loss.l2))
        if not self.offset > 0:
            raise Refused("loss: expected an offset above 0")
        # κz² = Δz + λ at z*, and −y is the other root.
        root = (self.gap * self.gap + 4 * self.rate * self.offset).sqrt()
        self.limit = (root + self.gap) / (2 * self.rate)
        self.y = (root - self.gap) / (2 * self.rate)
        self.turn = (self.offset / (self.big + self.rate)).sqrt()

    def spread(self, d: Any) -> Any:
        """A bound on ∫_0^d (Δ + g), a ball: either bound on g will do on either side of where they cross."""
        near = d if d <= self.turn else self.turn
        return (
            self.gap * d
            + self.big * near * near / 2
            + self.offset * (d / near).log()
            - self.rate * (d * d - near * near) / 2
        )

    def time(self, d: Any) -> Any:
        """The integral ∫_0^d dz/(Δ + g) for d < z*, a ball."""
        near = d if d <= self.turn else self.turn
        first = (1 + self.big * near / self.gap).log() / self.big
        ends = (
            ((self.limit - near) / (self.limit - d)).log(),
            ((d + self.y) / (near + self.y)).log(),
        )
        return first + (self.limit * ends[0] - self.y * ends[1]) / (
            self.rate * (self.limit + self.y)
        )

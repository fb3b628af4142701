"""What an audit showed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pabi.audits import laws
from pabi.audits.conformity import Conformity, Reach
from pabi.audits.laws import LawPair, Point
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers import validate
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact, shown, shown_down

_UNTESTED = "not tested: that takes a trainer of models of one number, without an intercept"
_EQUAL = 1.0 + 1e-9  # beyond the roundings of divergences that are equal


@dataclass(frozen=True, eq=False)
class Audit:
    """What attackers of models that were trained on two neighbouring data sets got, beside what is promised.

    Attributes
    ----------
    guarantee : Guarantee
        What is promised.
    instance : str
        The data sets, in a few words.
    trainings : int
        Models that the bounds count, half of them of either data set.
    delta : float
        The δ of `epsilon_lower`.
    confidence : float
        With which all bounds of the audit hold together.
    points : tuple of Point
        The tests, with upper bounds on their errors.
    law : LawPair or None
        The exact laws of what the instance releases; None where the trainer is not pabi's description.
    seconds : float
        How long it took.
    conformity : Conformity or None
        Whether a trainer's models follow the law that the run has; None without a trainer, and where its
        models are not one number each.
    reach : Reach or None
        What so many trainings of a trainer find, as it was before they began.

    References
    ----------
    docs, "Audits"; Dong, Roth, Su 2022, §2.
    """

    guarantee: Guarantee
    instance: str
    trainings: int
    delta: float
    confidence: float
    points: tuple[Point, ...]
    law: LawPair | None
    seconds: float
    conformity: Conformity | None = None
    reach: Reach | None = None

    @property
    def epsilon_lower(self) -> float:
        """The ε at `delta` that the trainings refute: with the stated confidence no less is true."""
        return self.epsilon(self.delta)

    def epsilon(self, delta: float) -> float:
        """The ε at another δ that the trainings refute; the confidence is that of all together.

        Parameters
        ----------
        delta : float, in [0, 1)
            The δ.

        Returns
        -------
        float
            A lower bound on the ε of what was trained; 0 if the trainings show nothing.

        Raises
        ------
        InvalidInput
            For a δ out of its range.
        """
        return laws.epsilon(self.points, validate.number("delta", delta, at_least=0.0, below=1.0))

    @property
    def mu_lower(self) -> float:
        """The μ that the trainings refute: what was trained is not μ-GDP for any less."""
        return laws.mu(self.points)

    @property
    def curve(self) -> Array:
        """(k, 2) upper bounds on the errors of tests: no trade-off function above these points is right."""
        return np.array([[point.fpr, point.fnr] for point in self.points])

    @property
    def exact(self) -> float | None:
        """The ε at `delta` of the instance itself, from its exact laws; None where they are not known."""
        return self.exact_epsilon(self.delta)

    def exact_epsilon(self, delta: float) -> float | None:
        """The ε of the instance at a δ, from below.

        Parameters
        ----------
        delta : float, in [0, 1)
            The δ.

        Returns
        -------
        float or None
            None where the laws are not known.

        Raises
        ------
        InvalidInput
            For a δ out of its range.
        """
        at = validate.number("delta", delta, at_least=0.0, below=1.0)
        if self.law is None:
            return None
        return max(self.law.epsilon(at), self.law.swapped().epsilon(at))

    @property
    def exact_mu(self) -> float | None:
        """The least μ for which the instance is μ-GDP, from below; None where its laws are not known."""
        return None if self.law is None else self.law.mu

    @property
    def resolved_delta(self) -> float:
        """A δ that so many trainings resolve."""
        return max(self.delta, laws.resolved(self.trainings // 2))

    @property
    def refuted(self) -> bool:
        """Whether the guarantee is wrong of what was trained: with the stated confidence by the trainings, or
        for certain by the exact laws."""
        return laws.refutes(self.points, self.guarantee.curve) or self._exceeded

    @property
    def not_as_described(self) -> bool:
        """Whether the trainer does something else than the run says, with the stated confidence. What it does
        may still keep the promise, which is `refuted` or not by itself."""
        return self.conformity is not None and self.conformity.refuted

    @property
    def _exceeded(self) -> bool:
        """Whether the instance itself costs more than is promised."""
        return any(
            (instance := self.exact_epsilon(delta)) is not None
            and instance > self.guarantee.epsilon(delta) * _EQUAL
            for delta in self.deltas
        )

    @property
    def deltas(self) -> tuple[float, ...]:
        """The δ that are shown."""
        return tuple(dict.fromkeys((self.delta, self.resolved_delta)))

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain numbers.

        Returns
        -------
        dict
            JSON-ready.

        Raises
        ------
        Nothing.
        """
        readings = [
            {
                "delta": delta,
                "epsilon_lower": self.epsilon(delta),
                "exact": self.exact_epsilon(delta),
                "guarantee": self.guarantee.epsilon(delta),
            }
            for delta in self.deltas
        ]
        return {
            "refuted": self.refuted,
            "not_as_described": None if self.conformity is None else self.not_as_described,
            "p_value": None if self.conformity is None else self.conformity.p_value,
            "reach": None if self.reach is None else self.reach.to_dict(),
            "instance": self.instance,
            "trainings": self.trainings,
            "confidence": self.confidence,
            "readings": readings,
            "mu_lower": self.mu_lower,
            "exact_mu": self.exact_mu,
            "mu": self.guarantee.mu,
            "curve": self.curve.tolist(),
            "adjacency": self.guarantee.adjacency,
            "method": self.guarantee.method,
            "seconds": self.seconds,
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the trade-off curves of the guarantee and of the instance, and the points of the trainings.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; the default is a new figure.

        Returns
        -------
        matplotlib axes
            Those that were drawn on.

        Raises
        ------
        Nothing.
        """
        from pabi.draw.guarantee import plot_audit

        return plot_audit(self, ax)

    @property
    def _described(self) -> list[str]:
        if self.conformity is not None:
            return [f"as described   {self.conformity}"]
        return [] if self.law is not None else [f"as described   {_UNTESTED}"]

    def __str__(self) -> str:
        rows = [["", *(f"epsilon at delta {exact(d)}" for d in self.deltas), "mu"]]
        lower = [shown_down(self.epsilon(d), 4) for d in self.deltas]
        rows.append(["trainings show", *lower, shown_down(self.mu_lower, 4)])
        if self.law is not None:
            instance = [shown_down(self.exact_epsilon(d) or 0.0, 4) for d in self.deltas]
            rows.append(["exact instance", *instance, shown_down(self.law.mu, 4)])
        promised = [shown(self.guarantee.epsilon(d), 4) for d in self.deltas]
        mu = self.guarantee.mu
        rows.append(["guarantee", *promised, "-" if mu is None else shown(mu, 4)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join(
            [
                f"audit          {'REFUTED' if self.refuted else 'not refuted'}",
                *self._described,
                f"instance       {self.instance}",
                f"trainings      {self.trainings}, confidence {exact(self.confidence)}",
                f"adjacency      {self.guarantee.adjacency}",
                *table,
            ]
        )

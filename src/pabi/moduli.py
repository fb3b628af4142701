"""How far one step can push two points apart.

A modulus of continuity of a map φ is a nondecreasing ω with ‖φ(x) − φ(y)‖ ≤ ω(‖x − y‖)
(Bravo, Flores-Mella, Guzmán, Def. 2.1), with ω(0) := 0, because distance zero means equality.
"""

from __future__ import annotations

import abc
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from pabi.errors import InvalidInput
from pabi.rounding import Array


class _Linear:
    """`Modulus.linear(slope)` builds ω(δ) = slope·δ; `modulus.linear` reads the least such slope."""

    @overload
    def __get__(self, instance: None, owner: type[Modulus]) -> type[Linear]: ...
    @overload
    def __get__(self, instance: Modulus, owner: type[Modulus]) -> float | None: ...
    def __get__(self, instance: Modulus | None, owner: type[Modulus]) -> Any:
        return Linear if instance is None else instance.least_slope()


class Modulus(abc.ABC):
    """A nondecreasing bound ω on how one step stretches distances: callable, ω(0) = 0.

    `Modulus.linear(slope)` is ω(δ) = slope·δ, and `Modulus.unbounded()` says that nothing is known.
    On an instance, `.linear` is the least c with ω(δ) ≤ cδ for every δ, or None if there is none.
    """

    linear = _Linear()

    @abc.abstractmethod
    def _evaluate(self, distance: Array) -> Array:
        """ω at positive distances."""

    @abc.abstractmethod
    def least_slope(self) -> float | None:
        """The least c with ω(δ) ≤ cδ for every δ, or None."""

    def __call__(self, distance: ArrayLike) -> float | Array:
        """ω at a distance, or at an array of distances (unit of the iterate, same shape out)."""
        delta = np.asarray(distance, dtype=np.float64)
        if np.any(~(delta >= 0.0)):
            raise InvalidInput("distance", f"expected nonnegative distances, got {distance!r}")
        values = np.where(delta == 0.0, 0.0, self._evaluate(delta))
        return float(values) if values.ndim == 0 else values

    @staticmethod
    def unbounded() -> Modulus:
        """The modulus of a map of which nothing is known: ω(δ) = ∞ for δ > 0."""
        return Unbounded()


class Linear(Modulus):
    """ω(δ) = slope·δ. Slope at most one: nonexpansive; below one: a contraction."""

    __slots__ = ("slope",)

    def __init__(self, slope: float) -> None:
        value = float(slope)
        if not (value >= 0.0 and np.isfinite(value)):
            raise InvalidInput("slope", f"expected a finite number ≥ 0, got {slope!r}")
        self.slope = value

    def _evaluate(self, distance: Array) -> Array:
        return self.slope * distance if self.slope > 0.0 else np.zeros_like(distance)

    def least_slope(self) -> float:
        return self.slope

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Linear) and other.slope == self.slope

    def __hash__(self) -> int:
        return hash((Linear, self.slope))

    def __repr__(self) -> str:
        return f"Modulus.linear({self.slope!r})"


class Unbounded(Modulus):
    """ω(δ) = ∞ for δ > 0: only analyses that never let the two runs drift apart apply."""

    __slots__ = ()

    def _evaluate(self, distance: Array) -> Array:
        return np.full_like(distance, np.inf)

    def least_slope(self) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unbounded)

    def __hash__(self) -> int:
        return hash(Unbounded)

    def __repr__(self) -> str:
        return "Modulus.unbounded()"

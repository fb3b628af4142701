"""Descriptions of runs: what happens to the data, nothing about what it costs.

A description is frozen and complete. The accountant reads it and the trainer executes it, so that
what was accounted is what ran.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, assert_never, runtime_checkable

import numpy as np

from pabi.describe import batches, updates
from pabi.describe.accounted import Accounted, same, warn_of_large_delta
from pabi.describe.assumptions import ADJACENT, HIDDEN, SHOWN
from pabi.describe.batches import Batches
from pabi.describe.losses import Loss, checked_loss
from pabi.describe.neighbours import Adjacency, Unit, changed, checked_adjacency, record_only
from pabi.describe.orders import (
    FixedSizes,
    Fractions,
    FreshSubsets,
    KnownUses,
    Order,
    RandomSizes,
    SecretOrder,
    fractions,
)
from pabi.describe.updates import Update
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array, down, fraction_up, times_down, times_up

if TYPE_CHECKING:
    from pabi.describe.iteration import NoisyIteration
    from pabi.guarantees.guarantee import Guarantee


@runtime_checkable
class Prox(Protocol):
    """A proximal map of a closed convex function: nonexpansive, x ↦ p(x, step_size)."""

    @property
    def diameter(self) -> float | None:
        """The diameter of its range, None if unbounded."""

    def __call__(self, x: Any, step_size: float) -> Any: ...


MOST = 10**18  # records or steps


@dataclass(frozen=True, eq=False, init=False)
class NoisySGD(Accounted):
    """A run of noisy SGD, X ← Π(X − η(g(X) + λX + ξ)), of which the last iterate is released.

    g is the sum of the batch's (clipped) gradients over `size`, whatever the batch's own length, and
    ξ ~ N(0, ς²I).

    Parameters
    ----------
    loss : Loss
        One record's loss and the ℓ2 regulariser λ, which is applied exactly at every step.
    n : int
        Records.
    batches : Batches
        `FullBatch()`, `Cyclic(size)`, `ShuffleOnce(size)`, `BallsInBins(size, cap=None)`,
        `Reshuffle(size)`, `FixedSize(size)` or `Poisson(size, cap=None)`. An epoch is ⌈n/size⌉ steps.
    epochs : float, optional
        Passes over the data, rounded up to whole batches. Cool-down steps come on top.
    steps : int, optional
        All steps, cool-down included, in place of `epochs`.
    step_size : float or (steps,) array
        η > 0, one per step, cool-down included.
    noise_std : float or (steps,) array, optional
        ς > 0, per coordinate, of the noise on (gradient sum)/size, in units of the gradient.
    noise_multiplier : float or (steps,) array, optional
        ς·size/clip_norm in place of `noise_std` (the loss's gradient bound stands in for a missing
        clip_norm). With neither, only `calibrate` works.
    clip_norm : float, optional
        C: each record's gradient is clipped to this norm.
    clipping : str
        "norm", or "coordinates": each of a gradient's d coordinates is clipped to clip_norm/√d, which
        bounds the norm as well and leaves a separable loss separable.
    gradient_sensitivity : float, optional
        L: the largest change of the batch's gradient sum between adjacent data sets, where known. Not
        with sampled batches, where one record also displaces others, but for `Poisson` under
        "zero_out".
    adjacency : str
        "replace_one" (default) or "zero_out", or the dp_accounting.NeighboringRelation of that meaning.
    prox : Prox, optional
        A proximal map applied after every step.
    diameter : float, optional
        A bound on the distance of any two iterates. Given without `prox` it is an assumption.
    cooldown_steps : int
        Final steps with regulariser and noise but without data.
    update : str or Update
        "sgd", one of `pabi.updates`, or "other" for what is trained elsewhere: but for plain descent only
        composition applies.
    release : str
        "last", or "path": then only composition applies.
    unit : str
        "record": whom the guarantee protects.
    total_steps : int, optional
        What `dataclasses.replace` hands on: the number of steps, where neither `epochs` nor `steps` says it.

    Raises InvalidInput, naming the field. Source of the model: Bok, Su, Altschuler 2024, §4.
    """

    loss: Loss
    n: int
    batches: Batches
    epochs: float | None
    total_steps: int
    step_size: Any
    noise_std: Any
    noise_multiplier: Any
    clip_norm: float | None
    gradient_sensitivity: float | None
    adjacency: Adjacency
    prox: Prox | None
    diameter: float | None
    cooldown_steps: int
    update: str | Update
    release: str
    clipping: str
    unit: Unit

    def __init__(
        self,
        loss: Loss,
        n: int,
        batches: Batches,
        epochs: float | None = None,
        steps: int | None = None,
        step_size: Any = None,
        noise_std: Any = None,
        noise_multiplier: Any = None,
        *,
        clip_norm: float | None = None,
        gradient_sensitivity: float | None = None,
        adjacency: Any = "replace_one",
        prox: Prox | None = None,
        diameter: float | None = None,
        cooldown_steps: int = 0,
        update: str | Update = "sgd",
        release: str = "last",
        clipping: str = "norm",
        unit: str = "record",
        total_steps: int | None = None,
    ) -> None:
        given: dict[str, Any] = {
            "loss": loss,
            "n": n,
            "batches": batches,
            "epochs": epochs,
            "step_size": step_size,
            "noise_std": noise_std,
            "noise_multiplier": noise_multiplier,
            "clip_norm": clip_norm,
            "gradient_sensitivity": gradient_sensitivity,
            "adjacency": adjacency,
            "prox": prox,
            "diameter": diameter,
            "cooldown_steps": cooldown_steps,
            "update": update,
            "release": release,
            "clipping": clipping,
            "unit": unit,
        }
        for name, value in given.items():
            self._store(name, value)
        self._check_data()
        self._check_steps(steps, total_steps)
        self._check_gradients()
        self._check_rest()

    def _store(self, name: str, value: Any) -> None:
        """Keep a checked argument; of numbers Python's own, for numpy's overflow in exact arithmetic."""
        object.__setattr__(self, name, value)

    def _check_rest(self) -> None:
        for name in ("step_size", "noise_std", "noise_multiplier"):
            value = getattr(self, name)
            if value is None and name == "step_size":
                raise InvalidInput(name, "missing: a run needs it")
            if value is None:
                continue
            checked = validate.schedule(name, value, positive=True)
            if isinstance(checked, np.ndarray) and len(checked) != self.steps:
                raise InvalidInput(
                    name,
                    f"expected {self.steps} entries, one per step (cool-down included), got {len(checked)}",
                )
            self._store(name, checked)
        if self.prox is not None and not (callable(self.prox) and hasattr(self.prox, "diameter")):
            raise InvalidInput(
                "prox", f"expected a map p(x, step_size) with a diameter, got {self.prox!r}"
            )
        stated = getattr(self.prox, "diameter", None)
        for name, value in (("diameter", self.diameter), ("prox.diameter", stated)):
            if value is not None:
                validate.number(name, value, above=0.0)
        self._store("update", updates.checked(self.update))
        self._store("release", validate.choice("release", self.release, ("last", "path")))
        self._store("clipping", validate.choice("clipping", self.clipping, ("norm", "coordinates")))
        self._store("unit", record_only(self.unit))
        if self.clipping != "norm" and self.clip_norm is None:
            raise InvalidInput("clip_norm", "missing: there is no norm to clip coordinates for")

    def _check_data(self) -> None:
        checked_loss(self.loss)
        self._store("n", validate.integer("n", self.n, at_least=1, at_most=MOST))
        batches.checked(self.batches).batch_size(self.n)
        self._store("adjacency", checked_adjacency(self.adjacency))

    def _check_steps(self, steps: int | None, total: int | None) -> None:
        """Stores how many there are: as `steps` says, or `epochs`, or else as handed on (`total`)."""
        cooldown = validate.integer("cooldown_steps", self.cooldown_steps, at_least=0, at_most=MOST)
        self._store("cooldown_steps", cooldown)
        if self.epochs is not None and steps is not None:
            raise InvalidInput("epochs", "expected exactly one of epochs and steps, got both")
        if self.epochs is not None:
            self._store("total_steps", _steps_of(self.epochs, self.steps_per_epoch) + cooldown)
            return
        stated = total if steps is None else steps
        if stated is None:
            raise InvalidInput("epochs", "expected exactly one of epochs and steps, got neither")
        stated = validate.integer("steps", stated, at_least=1, at_most=MOST)
        most = stated - 1
        validate.integer("cooldown_steps", cooldown, at_least=0, at_most=most, of="steps − 1 = ")
        self._store("total_steps", stated)

    def _check_gradients(self) -> None:
        if self.noise_std is not None and self.noise_multiplier is not None:
            raise InvalidInput(
                "noise_multiplier", "expected at most one of noise_std and noise_multiplier"
            )
        for name in ("clip_norm", "gradient_sensitivity"):
            if (value := getattr(self, name)) is not None:
                self._store(name, validate.number(name, value, above=0.0))
        if self.gradient_sensitivity is not None:
            for other in ("clip_norm", "noise_multiplier"):
                if getattr(self, other) is not None:
                    raise InvalidInput(
                        "gradient_sensitivity", f"expected it alone, got it together with {other}"
                    )
            if not self._sensitivity_may_be_stated:
                raise InvalidInput(
                    "gradient_sensitivity",
                    f"a {self.batches.kind} batch holds the record in place of others or not at all: what "
                    "the adjacent pair differ by is not enough; give clip_norm, or a loss with a "
                    "gradient bound",
                )
        elif self.record_gradient_bound is None:
            raise InvalidInput(
                "clip_norm",
                "missing: nothing bounds one record's gradient; give clip_norm, gradient_sensitivity, "
                "or a loss with a gradient bound",
            )

    @property
    def _sensitivity_may_be_stated(self) -> bool:
        """Whether what the adjacent pair differ by bounds what a record adds to a batch."""
        match self.order:
            case KnownUses() | SecretOrder():
                return True
            case FreshSubsets() as order:
                return changed(self.adjacency) == 1 and not order.displaces
            case _:
                assert_never(self.order)

    # What follows from the fields.

    @property
    def steps(self) -> int:
        """All steps, cool-down included."""
        return self.total_steps

    @property
    def order(self) -> Order:
        """Which steps use a record, and who knows.

        Raises InvalidInput for batches that pabi does not know.
        """
        return batches.order_of(self.batches, self.n, self.data_steps)

    @property
    def rule(self) -> Update:
        """The update that every step takes."""
        return updates.rule_of(self.update)

    @property
    def batch_size(self) -> int:
        """b, by which every batch sum is divided."""
        return self.batches.batch_size(self.n)

    @property
    def steps_per_epoch(self) -> int:
        """l = ⌈n/size⌉."""
        return self.batches.per_epoch(self.n)

    @property
    def data_steps(self) -> int:
        """Steps that use data: all but the cool-down."""
        return self.steps - self.cooldown_steps

    @property
    def record_gradient_bound(self) -> float | None:
        """The largest norm of one record's (clipped) gradient: the lesser of clip_norm and the loss's."""
        bounds = [b for b in (self.clip_norm, self.loss.gradient_bound) if b is not None]
        return min(bounds) if bounds else None

    @property
    def sensitivity(self) -> float:
        """L: how far one record moves a batch's gradient sum under `adjacency`.

        In a batch of fixed size a record takes the place of another, under either adjacency.
        """
        if self.gradient_sensitivity is not None:
            return self.gradient_sensitivity
        bound = self.record_gradient_bound
        assert bound is not None
        return 2.0 * bound if self.order.displaces else changed(self.adjacency) * bound

    @property
    def gradient_noise_std(self) -> float | Array:
        """ς, given or from the multiplier (rounded down). InvalidInput if the run has no noise yet."""
        if self.noise_std is not None:
            return self.noise_std  # type: ignore[no-any-return]
        if self.noise_multiplier is None:
            raise InvalidInput(
                "noise_std", "missing: give noise_std or noise_multiplier, or calibrate"
            )
        unit = self.clip_norm if self.clip_norm is not None else self.loss.gradient_bound
        assert unit is not None
        if isinstance(self.noise_multiplier, np.ndarray):
            scaled: Array = np.nextafter(
                times_down(self.noise_multiplier, unit) / self.batch_size, 0.0
            )
        else:
            scaled = down(down(self.noise_multiplier * unit) / self.batch_size)  # type: ignore[assignment]
        if not np.all(scaled > 0.0):
            raise InvalidInput("noise_multiplier", "the noise it stands for underflows to zero")
        return scaled

    @property
    def range_diameter(self) -> float:
        """D: the least of the proximal map's and the stated diameter, ∞ if there is none."""
        bounds = [self.diameter, getattr(self.prox, "diameter", None)]
        return min((float(d) for d in bounds if d is not None), default=math.inf)

    @property
    def constant(self) -> bool:
        """Whether step size and noise are the same at every step."""
        return not any(isinstance(x, np.ndarray) for x in (self.step_size, self.gradient_noise_std))

    def fractions(self, failing: float = 0.0) -> Fractions:
        """Records of a batch over what its sum is divided by; `failing`: how likely it may be that a batch of
        random size has more."""
        return fractions(self.order.sizes, self.batch_size, failing)

    def schedule(self, first: int, end: int) -> tuple[Array, Array]:
        """(step sizes, noises on the gradient) of the steps `first`, …, `end` − 1, counted from 0; arrays."""

        def part(x: Any) -> Array:
            return x[first:end] if isinstance(x, np.ndarray) else np.full(end - first, float(x))

        return part(self.step_size), part(self.gradient_noise_std)

    def step_constants(self, step_sizes: Array, noise: Array) -> tuple[Array, Array]:
        """(s_k of a batch with the record in it, rounded up; σ_k, rounded down), arrays."""
        per_record = fraction_up(Fraction(self.sensitivity) / self.batch_size)
        return times_up(step_sizes, per_record), np.nextafter(step_sizes * noise, 0.0)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this run to hold."""
        return run_sentences(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisySGD):
            return NotImplemented
        return self.rule == other.rule and all(
            same(getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)
            if f.name != "update"
        )

    __hash__ = None

    def __getstate__(self) -> dict[str, Any]:
        """The constructor's arguments that were given."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in given.items() if value is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, **state)

    # What it costs.

    def iteration(self, position: int | None = None) -> NoisyIteration:
        """The normal form, as seen by a record in batch `position` (0-based; None: the worst one).

        Raises InvalidInput for a position that the run does not have, and where no record is the worst.
        Source: docs, "The worst record".
        """
        from pabi.account.normal_form import iteration

        return iteration(self, position)

    def guarantee(self, delta: float = 1e-5, position: int | None = None) -> Guarantee:
        """The best proven guarantee, chosen at `delta` in [0, 1) and valid at every δ.

        `position`: of the records in that batch (0-based) of a cyclic run only. Raises NotApplicable when no
        analysis covers the run, and InvalidInput for a δ or a position outside of its range. Warns
        (PrivacyWarning) when `delta` exceeds 1/n. Source: that of the analysis, in the guarantee's `source`.
        """
        warn_of_large_delta(self.n, delta)
        return self._best(delta, position)


def _steps_of(epochs: Any, per_epoch: int) -> int:
    """Steps with data in so many passes."""
    exact = validate.number("epochs", epochs, above=0.0) * per_epoch
    if not exact <= MOST:
        raise InvalidInput("epochs", f"expected at most {MOST} steps in all, got {epochs!r} epochs")
    whole = round(exact)  # 2.2 epochs of 5 batches are 11 steps, whatever 2.2 is in binary
    return whole if abs(exact - whole) <= 1e-9 * exact else math.ceil(exact)


def run_sentences(
    run: NoisySGD, hidden: bool = True, position: int | None = None
) -> tuple[str, ...]:
    """What a guarantee of `run` rests on.

    `hidden`: whether it needs the path to stay hidden. `position`: the only batch it speaks of.
    """
    loss, said = run.loss, [ADJACENT[run.adjacency]]
    said.append(HIDDEN if hidden else SHOWN)
    if position is not None:
        said.append(
            f"the record is one of batch {position} (0-based); no other record is spoken of"
        )
    said.append(run.batches.sentence)
    said.extend(_about_sizes(run))
    said.append(
        f"every batch sum of gradients, the short last one included, is divided by {run.batch_size}"
    )
    said.append(
        "noise is Gaussian, fresh at every step, independent of the data and never revealed"
    )
    said.append("the starting point, the schedule and all settings do not depend on the data")
    if run.gradient_sensitivity is not None:
        said.append(
            f"one record moves a batch's gradient sum by at most {run.gradient_sensitivity!r} "
            "(gradient_sensitivity)"
        )
    elif loss.clips(run.clip_norm, run.clipping):
        how = {"norm": "to norm {c!r}", "coordinates": "coordinate by coordinate to {c!r}/√d"}
        said.append(
            f"each record's gradient is clipped {how[run.clipping].format(c=run.clip_norm)}"
        )
    bound = loss.gradient_bound
    if run.gradient_sensitivity is None and bound == run.record_gradient_bound:
        said.append(f"each record's gradient has norm at most {loss.gradient_bound!r}")
    if hidden:
        said.extend(_about_moduli(run))
    else:
        said.append("each step depends on the data only through the noisy gradients so far")
    return tuple(said)


def _about_sizes(run: NoisySGD) -> list[str]:
    """What happens with batches that are too large."""
    sizes = run.order.sizes
    match sizes:
        case FixedSizes() | RandomSizes(cap=None):
            return []
        case RandomSizes(cap=cap):
            said = (
                f"a batch of more than {cap} records is replaced by an empty one, never truncated"
            )
        case _:
            assert_never(sizes)
    if changed(run.adjacency) == 1:
        said += "; a record whose gradient is taken as zero is drawn and counted like any other"
    return [said]


def _about_moduli(run: NoisySGD) -> list[str]:
    loss, said = run.loss, list(run.loss.sentences)
    if loss.l2:
        said.append(
            f"the regulariser {loss.l2!r}·‖x‖²/2 is applied exactly, outside clipping and batch"
        )
    if run.prox is not None:
        said.append(
            f"the proximal map {run.prox!r} is nonexpansive and does not depend on the data"
        )
    proven = getattr(run.prox, "diameter", None)
    if proven is not None:
        said.append(f"the range of {run.prox!r} has diameter at most {proven!r}")
    if run.diameter is not None and (proven is None or run.diameter < proven):
        said.append(f"any two iterates are at most {run.diameter!r} apart (diameter)")
    if run.cooldown_steps:
        said.append(f"the last {run.cooldown_steps} steps use no data")
    return said

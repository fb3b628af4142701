"""An accountant for Opacus' engine that answers for the last iterate of a described run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pabi.describe.batches import Cyclic, FixedSizes, Poisson
from pabi.describe.files import from_dict, to_dict
from pabi.describe.runs import NoisySGD
from pabi.describe.updates import Other
from pabi.describe.vector_losses import LINEAR_LOSSES
from pabi.integrations.opacus.describing import (
    NOTE,
    WRONG,
    check_loader,
    probability_of,
    rate_of,
    refuse_other_weights,
    within_a_number,
)
from pabi.integrations.opacus.optimizers import (
    GHOST,
    WHOLE,
    StepSettings,
    WatchedSteps,
    draws_reproducibly,
    settings_of,
)
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, PrivacyWarning, extra, must_be, require, warn_once
from pabi.numbers.showing import exact
from pabi.tradeoff.guarantee import TESTING, Guarantee

_accountants: Any = extra("opacus.accountants", "opacus")

NAME = "pabi"
LOADER = (
    "batches are drawn by the loader as the run says: the accountant saw their number, and nothing else "
    "of them"
)
LOOP = (
    "between two steps the training loop computes, once, the gradients of one batch's loss, each record in "
    "it once, and does nothing else with records; no hook changes gradients, and what is published are the "
    "parameters that the last step left"
)
LINEAR = (
    "the weight that is trained multiplies the features of a record, once, the loss of a record is the "
    "stated one of the product, and batches are reduced (mean or sum) as make_private was told"
)
CRITERION = (
    "gradients are those of the criterion that make_private returned, which clips them to the max_grad_norm "
    "of that call, and the optimiser's is still the same: those of another one are not clipped at all"
)
PARTS = "steps that were skipped had parts of one batch, as BatchMemoryManager cuts it: no record is in two"
RESUMED = (
    "the training went on from a stored state with the parameters and the optimiser's state that the last "
    "step before had left: the accountant saw neither"
)
PRECISION = (
    "Opacus' gradients, norms, sums and noise, in single or double precision throughout (no autocast, no "
    "TF32), are as good as exact ones"
)
INSECURE = (
    "nobody can predict noise and batches of torch's generator, whose seed has 32 bits "
    "(secure_mode=False)"
)
_UNSEEN = (
    "nobody compared the loader with the run: one that shuffles, where the run says Poisson sampling, voids "
    "this ε; describe(run, loader=loader) compares them"
)
_NEVER = 2.0**-100  # the probability of a batch larger than any that is taken for one
_SAME = 1e-12  # relative: what a schedule written down in another way is off by


@dataclass(frozen=True)
class SeenSteps:
    """So many steps in turn that looked the same. `settings`: None where `step` was called without any."""

    noise_multiplier: float
    sample_rate: float
    count: int
    settings: StepSettings | None

    def joined(self, other: SeenSteps) -> SeenSteps | None:
        """Both in one, None where they differ."""
        same = replace(self, count=other.count) == other
        return replace(self, count=self.count + other.count) if same else None

    def to_dict(self) -> dict[str, Any]:
        """A table of numbers and texts."""
        return {
            **vars(self),
            "settings": None if self.settings is None else self.settings.to_dict(),
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> SeenSteps:
        """What `to_dict` wrote."""
        settings = table["settings"]
        stated = None if settings is None else StepSettings.from_dict(settings)
        return cls(**{**table, "settings": stated})


class PabiAccountant(_accountants.IAccountant):  # type: ignore[misc]
    """ε of the run that was described, after every step was seen to be one of that run.

    `PrivacyEngine(accountant="pabi")` makes it. It watches each step of the optimiser, and answers only for
    what it saw: noise multiplier, clipping norm, divisor, learning rate, weight decay, update, sampling rate
    and number of steps have to be those described, and the parameters before a step those that the last one
    left. It belongs to one optimiser. It sees the loader only where `describe` is given it, and never the
    loop that computes gradients, nor what is published: the guarantee says what it assumes of them.

    Attributes
    ----------
    run : NoisySGD or None
        What was described.
    history : list
        What was seen: steps that looked the same together. It holds settings, and nothing of the data.

    References
    ----------
    docs, "I have a PyTorch model".
    """

    def __init__(self) -> None:
        self.history: list[SeenSteps] = []
        self._run: NoisySGD | None = None
        self._compared_loader = self._seeded_loader = False
        self._parts = self._resumed = False
        self._watched: WatchedSteps | None = None

    @property
    def run(self) -> NoisySGD | None:
        """What was described, None before."""
        return self._run

    def describe(self, run: NoisySGD, loader: Any = None, *, parts: bool = False) -> None:
        """Says what run the engine is to do, or did. Another description takes the place of the last.

        Parameters
        ----------
        run : NoisySGD
            As `from_opacus` makes it, or your own.
        loader : torch.utils.data.DataLoader, optional
            What the training loop goes through, which is compared with the run as by `check_loader`. Without
            it, or where nobody can say how it draws, `get_epsilon` warns. It is not kept: after
            `load_state_dict` say it again.
        parts : bool
            Whether Opacus' BatchMemoryManager cuts batches into parts. The guarantee then assumes that no
            record is in two parts of a batch; otherwise steps that are skipped are refused.

        Raises
        ------
        InvalidInput
            For what is no NoisySGD, has no noise, or has what Opacus does not do: convex clipping,
            clipping of coordinates, a stated sensitivity, steps without data, a proximal map or a diameter,
            users, a cap of Poisson batches. `loader` draws other batches.
        """
        validate.instance("run", run, NoisySGD, "a pabi.NoisySGD")
        run.gradient_noise_std  # noqa: B018  refuses a run without noise
        must_be(
            run.clip_norm is not None and run.clipping == "norm",
            "clipping",
            "a clip_norm and clipping='norm', which is what Opacus does",
            run.clipping,
        )
        must_be(
            run.unit == "record",
            "unit",
            "'record': Opacus clips the gradient of each record, not the mean of a user's",
            run.unit,
        )
        for name in ("prox", "diameter"):
            own = getattr(run, name)
            must_be(own is None, name, "None: Opacus keeps iterates within no set", own)
        cap = getattr(run.batches, "cap", None) if isinstance(run.batches, Poisson) else None
        must_be(cap is None, "batches", "no cap: Opacus trains on every batch, however large", cap)
        require(
            not run.cooldown_steps,
            "cooldown_steps",
            f"expected 0: Opacus takes none, got {run.cooldown_steps}",
        )
        stated = validate.flag("parts", parts)
        compared = loader is not None and draws_as_described(loader, run)
        seeded = loader is not None and draws_reproducibly(loader)
        # What was said of steps that were seen holds of them whatever is described afterwards.
        before = bool(self.history)
        self._parts = stated or (before and self._parts)
        self._seeded_loader = seeded or (before and self._seeded_loader)
        self._compared_loader, self._run = compared, run

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Notes a step of which no more is known, for which `get_epsilon` will not answer.

        Parameters
        ----------
        noise_multiplier : float
            σ, as Opacus has it.
        sample_rate : float
            The probability of a record to be in a batch.

        Raises
        ------
        Nothing
            Steps are compared when somebody asks.
        """
        self._note(SeenSteps(float(noise_multiplier), float(sample_rate), 1, None))

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What the engine attaches to its optimiser: it notes the settings of every step.

        Parameters
        ----------
        sample_rate : float
            The probability of a record to be in a batch.

        Returns
        -------
        callable
            A function of the optimiser. It raises InvalidInput for one that pabi cannot account for, or that
            is not the first one's, and for parameters that something else than steps changed.

        Raises
        ------
        Nothing
            The function may.
        """

        def hook(optimizer: Any) -> None:
            settings = replace(
                settings_of(optimizer), accumulated=int(optimizer.accumulated_iterations)
            )
            self._watched = self._watched or WatchedSteps(optimizer)
            self._watched.look(optimizer, hook, parts=self._parts)
            self._note(SeenSteps(settings.noise_multiplier, float(sample_rate), 1, settings))

        return hook

    def get_epsilon(self, delta: float, **_: Any) -> float:
        """ε of the described run, of which the last iterate is released.

        Before the last step there is no such number: `guarantee_so_far` has what the models so far cost, all
        together.

        Parameters
        ----------
        delta : float, in [0, 1)
            δ.
        **_
            What Opacus' accountants take besides is ignored.

        Returns
        -------
        float
            ε, rounded up.

        Raises
        ------
        InvalidInput
            `run` is not described, or what was seen is not that run; the error names the field.
        NotApplicable
            When no analysis covers the run.

        Warns
        -----
        PrivacyWarning
            When `delta` exceeds 1/n. Once, when nobody compared the loader with the run.
        """
        if self.run is not None and not self._compared_loader:
            warn_once(_UNSEEN, PrivacyWarning)
        return self.guarantee(delta).epsilon(delta)

    def guarantee(self, delta: float = 1e-5) -> Guarantee:
        """The guarantee of the described run, once all its steps were seen.

        Parameters
        ----------
        delta : float, in [0, 1)
            The δ at which analyses are compared; it holds at every δ.

        Returns
        -------
        Guarantee
            Under the run's assumptions, and what Opacus adds to them.

        Raises
        ------
        InvalidInput, NotApplicable
            As `get_epsilon`.
        """
        run = self._described()
        require(
            len(self) == run.steps,
            "steps",
            f"the run has {run.steps}, and {len(self)} were seen; for a model after another number of "
            "steps describe that run, for all models so far ask guarantee_so_far",
        )
        return self._of(self._compared(run), delta)

    def guarantee_so_far(self, delta: float = 1e-5) -> Guarantee:
        """What every model so far costs, all of them published: composition of the steps that were seen.

        It holds whichever of these models are shown. A loss or a score on the records is none of them, and no
        guarantee covers it. The guarantee of the last iterate needs that nothing else is shown: a model that
        is published on the way is charged for by this, and so are all after it.

        Parameters
        ----------
        delta : float, in [0, 1)
            The δ at which analyses are compared; it holds at every δ.

        Returns
        -------
        Guarantee
            Of the run with release="path" and as many steps as were seen.

        Raises
        ------
        InvalidInput
            `run` is not described, no step was seen, more were than it has, or others.
        """
        run = self._described()
        require(
            0 < len(self) <= run.steps,
            "steps",
            f"expected 1 to {run.steps}, as described, got {len(self)} so far",
        )
        return self._of(first_steps(self._compared(run), len(self)), delta)

    def __len__(self) -> int:
        """The number of steps that were seen."""
        return sum(seen.count for seen in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name by which Opacus knows it.

        Returns
        -------
        str
            "pabi".
        """
        return NAME

    def state_dict(self, destination: Any = None) -> Any:
        """The run and what was seen of it, in plain numbers and texts, which `torch.save` keeps.

        Parameters
        ----------
        destination : dict, optional
            Into which it is written.

        Returns
        -------
        dict
            `destination`, or a new one.

        Raises
        ------
        InvalidInput
            For a run that no file can hold.
        """
        state = {} if destination is None else destination
        state["history"] = [seen.to_dict() for seen in self.history]
        state["mechanism"] = self.mechanism()
        state["parts"] = self._parts
        state["run"] = None if self.run is None else to_dict(self.run)
        state["seeded_loader"] = self._seeded_loader
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over what `state_dict` wrote.

        Parameters
        ----------
        state_dict : dict
            As `state_dict` returns it.

        Raises
        ------
        InvalidInput
            For a state of another accountant, or none; after steps that it does not have.
        """
        mechanism = (state_dict or {}).get("mechanism")
        must_be(mechanism == NAME, "state_dict", 'that of the accountant "pabi"', mechanism)
        try:
            history = [SeenSteps.from_dict(table) for table in state_dict["history"]]
            run = state_dict["run"]
        except (KeyError, TypeError, AttributeError):
            raise InvalidInput(
                "state_dict", "expected what PabiAccountant.state_dict wrote"
            ) from None
        require(
            self._watched is None or history == self.history,
            "state_dict",
            "expected to be loaded before the first step",
        )
        self._run, self._compared_loader = None, False
        parts = bool(state_dict.get("parts", True))  # earlier versions had it without a word
        if run is not None:
            self.describe(from_dict(deepcopy(run)), parts=parts)  # type: ignore[arg-type]
        self._resumed = self._watched is None and bool(history)
        self.history, self._parts = history, parts
        self._seeded_loader = bool(state_dict.get("seeded_loader", False))

    def _note(self, seen: SeenSteps) -> None:
        last = self.history[-1].joined(seen) if self.history else None
        self.history[-1 if last else len(self.history) :] = [last or seen]

    def _described(self) -> NoisySGD:
        if self.run is None:
            raise InvalidInput(
                "run",
                "missing: describe(run) says what the engine does, see from_opacus; the noise for a target "
                "is what pabi.calibrate finds",
            )
        return self.run

    def _compared(self, run: NoisySGD) -> NoisySGD:
        """The run, with the probability that records were drawn with; InvalidInput if it was another."""
        first, rate = 0, rate_of(run)
        for seen in self.history:
            compare(run, first, seen)
            rate = max(rate, probability_of(seen.sample_rate))
            first += seen.count
        self._refuse_other_steps(run)
        if isinstance(run.batches, Poisson):
            return replace(run, batches=replace(run.batches, probability=rate))
        return run

    def _refuse_other_steps(self, run: NoisySGD) -> None:
        """Raises InvalidInput for parameters changed since the last step, and steps of too many records."""
        if self._watched is None:
            return
        self._watched.refuse_changed()
        sizes = run.order.sizes
        most = sizes.most if isinstance(sizes, FixedSizes) else sizes.covered(_NEVER)[0]
        require(
            self._watched.most <= most,
            "batches",
            f"expected batches of at most {most} records, got a step with more: one that is put together "
            "by hand may hold a record more than once",
        )

    def _of(self, run: NoisySGD, delta: float) -> Guarantee:
        settings = [seen.settings for seen in self.history if seen.settings is not None]
        sentences = {
            LOADER: True,
            LOOP: True,
            LINEAR: run.loss.kind in LINEAR_LOSSES,
            CRITERION: any(each.clipping == GHOST for each in settings),
            PRECISION: True,
            INSECURE: not all(each.secure for each in settings),
            PARTS: self._parts,
            RESUMED: self._resumed,
            TESTING: self._seeded_loader or any(each.seeded for each in settings),
        }
        return run.guarantee(delta).assuming(*(text for text, holds in sentences.items() if holds))


def first_steps(run: NoisySGD, count: int) -> NoisySGD:
    """The run after its first `count` steps, every iterate released."""

    def part(value: Any) -> Any:
        return value[:count] if isinstance(value, np.ndarray) else value

    return replace(
        run,
        epochs=None,
        total_steps=count,
        step_size=part(run.step_size),
        noise_std=part(run.noise_std),
        noise_multiplier=part(run.noise_multiplier),
        release="path",
    )


# Whether batches and steps are those of a run.


def draws_as_described(loader: Any, run: NoisySGD) -> bool:
    """Whether a loader draws the batches of `run`; False where nobody can say. Else InvalidInput."""
    described = PabiAccountant()
    described._run = run
    findings = check_loader(loader, described)
    for finding in findings:
        require(finding.severity != WRONG, "loader", str(finding))
    return all(finding.severity == NOTE for finding in findings)


def compare(run: NoisySGD, first: int, seen: SeenSteps) -> None:
    """Raises InvalidInput, naming the field, unless the steps from `first` on are as described."""
    if seen.settings is None:
        raise InvalidInput(
            "optimizer",
            f"step {first + 1} was noted without one: attach the hook that the engine does",
        )
    settings, rule, at = seen.settings, run.rule, f"step {first + 1}"
    _compare_rates(run, seen.sample_rate, settings.accumulated)
    refuse_other_weights(run.loss, settings.shapes)
    end = min(first + seen.count, run.steps)
    sizes, _ = run.schedule(first, end)
    scale = run.batch_size / settings.divisor
    _same("noise_multiplier", _multipliers(run, first, end), settings.noise_multiplier, at)
    _same("max_grad_norm", run.clip_norm, settings.max_grad_norm, at)
    _compare_divisor(run, settings, sizes)
    if not isinstance(rule, Other):
        _same("lr", sizes / scale, settings.learning_rate, at)
        _same("weight_decay", run.loss.l2 * scale, settings.weight_decay, at)
        must_be(
            settings.update == rule,
            "optimizer",
            f"the update {rule!r}, as described",
            settings.update,
        )
    require(
        settings.clipping == WHOLE or not rule.plain or run.loss.kind == "unknown",
        "clipping",
        f"expected Loss.unknown() for clipping {settings.clipping}, got {run.loss.kind}",
    )


def _multipliers(run: NoisySGD, first: int, end: int) -> Any:
    """σ of some steps, as stated or from the noise on the gradient."""
    stated = run.noise_multiplier
    if stated is None:
        assert run.clip_norm is not None
        return run.schedule(first, end)[1] * run.batch_size / run.clip_norm
    return stated[first:end] if isinstance(stated, np.ndarray) else stated


def _compare_rates(run: NoisySGD, seen: float, accumulated: int) -> None:
    require(
        accumulated == 1,
        "accumulated_iterations",
        f"expected one batch a step, as described, got {accumulated}",
    )
    rate = rate_of(run)
    require(
        within_a_number(rate, seen),
        "sample_rate",
        f"expected {exact(rate)}, as described, got {exact(seen)}",
    )


def _compare_divisor(run: NoisySGD, settings: StepSettings, sizes: np.ndarray[Any, Any]) -> None:
    """Poisson batches state their divisor. Others may be divided by another number than their size, which the
    step size makes up for: then by the one that Opacus computes, or by 1, and with another rate."""
    divisor, own = settings.divisor, run.batch_size
    possible = {own}
    if not isinstance(run.batches, Poisson) and not _close(sizes, settings.learning_rate):
        # Opacus also counts records that a fixed order never comes to, which the run does not have.
        more = run.batches.size if isinstance(run.batches, Cyclic) and run.n % own == 0 else 1
        possible |= {1, *(int(n * (1.0 / run.steps_per_epoch)) for n in range(run.n, run.n + more))}
    require(
        divisor in possible, "expected_batch_size", f"expected {own}, as described, got {divisor}"
    )


def _close(described: Any, seen: float) -> bool:
    return bool(np.all(np.abs(np.asarray(described) - seen) <= _SAME * abs(seen)))


def _same(field: str, described: Any, seen: float, at: str) -> None:
    """Raises InvalidInput unless all that is described is what was seen."""
    if _close(described, seen):
        return
    values = np.unique(np.asarray(described, dtype=np.float64))
    off = float(values[np.argmax(np.abs(values - seen))]) if values.size else math.nan
    raise InvalidInput(
        field, f"expected {exact(off)}, as described, got {exact(seen)} from {at} on"
    )


_accountants.register_accountant(NAME, PabiAccountant, force=True)

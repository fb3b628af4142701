"""From an optimiser and a loader of Opacus to the description of the run that they do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from pabi.describe.batches import (
    BallsInBins,
    Batches,
    Cyclic,
    FixedSizes,
    FullBatch,
    Poisson,
    Reshuffle,
)
from pabi.describe.losses import Loss, checked_loss
from pabi.describe.runs import NoisySGD
from pabi.describe.updates import Momentum, Other
from pabi.describe.vector_losses import LINEAR_LOSSES
from pabi.integrations.datasets import REPEATED, repeats
from pabi.integrations.opacus.optimizers import EVERY, WHOLE, learning_rates, settings_of
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, extra, require
from pabi.numbers.rounding import fraction_down
from pabi.numbers.showing import exact

# How a loader of PyTorch or Opacus draws batches, as a batch scheme, and whether it is accounted as that.
#
# Opacus' own accountants charge for Poisson sampling whatever the loader does. A loader that shuffles
# costs far more than they say, unless only the last iterate is released and its steps do not expand.


_data: Any = extra("torch.utils.data", "opacus")
_memory: Any = extra("opacus.utils.batch_memory_manager", "opacus")
_uniform: Any = extra("opacus.utils.uniform_sampler", "opacus")
_torch: Any = extra("torch", "opacus")

WRONG = "wrong"
UNKNOWN = "unknown"
NOTE = "note"
_POISSON = (
    "what it answers holds of Poisson sampling alone: let make_private draw the batches "
    "(poisson_sampling=True), or describe the run to pabi (from_opacus)"
)
_HOW = {
    "full_batch": "uses all records at every step",
    "cyclic": "goes through the records in a fixed order",
    "reshuffle": "shuffles the records every epoch",
    "shuffle_once": "shuffles the records once",
    "balls_in_bins": "puts every record into one of the batches",
    "fixed_size": "draws batches of a fixed size",
    "poisson": "draws each record by itself",
}


def _how(batches: Batches) -> str:
    """What a loader of these batches does."""
    when = ""
    if isinstance(batches, BallsInBins):
        when = ", once" if batches.redraw == "once" else ", anew in every epoch"
    return _HOW[batches.kind] + when


@dataclass(frozen=True)
class DrawnBatches:
    """What a loader draws: `batches` of `n` records, `steps` of them in one pass over the loader.

    Records that a loader leaves out, others in every epoch, are spare ones of the n, as each may be used.
    Those that a fixed order never comes to are no records of the run.
    """

    batches: Batches
    n: int
    steps: int


@dataclass(frozen=True)
class LoaderFinding:
    """Something about a loader that an accountant's number does not cover, or that its user should know.

    Attributes
    ----------
    subject : str
        What it is about: "sampling", "drop_last", "last batch", "sampler", "probability", "divisor",
        "records" or "run".
    severity : str
        "wrong": the number is not that of this loader. "unknown": nobody can say how batches are drawn.
        "note": the number is right if the description says so too.
    message : str
        One line.
    """

    subject: str
    severity: str
    message: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.subject} ({self.severity}): {self.message}"


class LoaderFindings(tuple[LoaderFinding, ...]):
    """All that was found, in order; `print` shows a line for each.

    Parameters
    ----------
    iterable : iterable of LoaderFinding
        As for a tuple.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """A line for each."""
        return "\n".join(map(str, self)) or "batches are drawn as they are accounted for"


def check_loader(loader: Any, accountant: Any = None, *, strict: bool = False) -> LoaderFindings:
    """What about a loader the number of an accountant does not cover.

    The most common error: a loader that shuffles, with an accountant that charges for Poisson sampling. No
    record is looked at, and no batch is drawn.

    Parameters
    ----------
    loader : torch.utils.data.DataLoader
        What the training loop goes through: after `make_private`, what that returned.
    accountant : opacus.accountants.IAccountant, optional
        That of the engine, `engine.accountant`. A `PabiAccountant` is compared with what it was told. None:
        one of Opacus' own.
    strict : bool
        Whether to raise an error if anything is wrong or unknown.

    Returns
    -------
    tuple of LoaderFinding
        Empty where batches are drawn as they are accounted for. `print` shows it.

    Raises
    ------
    InvalidInput
        `loader` is no DataLoader. With `strict`, for the first finding that is more than a note.

    References
    ----------
    Chua et al. 2024, "How Private are DP-SGD Implementations?", of the gap between shuffling and Poisson
    sampling.
    """
    strict = validate.flag("strict", strict)
    require_loader(loader)
    findings = LoaderFindings(_findings(loader, accountant))
    for finding in findings:
        require(not strict or finding.severity == NOTE, "loader", str(finding))
    return findings


def require_loader(loader: Any) -> None:
    """Raises InvalidInput unless it is a DataLoader."""
    validate.instance("loader", loader, _data.DataLoader, "a torch.utils.data.DataLoader")


def drawn_by(loader: Any) -> DrawnBatches:
    """How a loader draws batches. The size of Poisson batches is the expected one, rounded down."""
    require_loader(loader)
    endless = isinstance(loader.dataset, _data.IterableDataset)
    _require(not endless, "an IterableDataset, whose order and batches nobody can say")
    _require(not repeats(loader.dataset), REPEATED)
    own = next((name for name in _DRAWING if _is_own(loader, name)), None)
    _require(own is None, f"those of a {type(loader).__name__} with a {own} of its own")
    sampler = loader.batch_sampler
    n = len(loader.dataset)
    # PyTorch's own would put several batches of pabi's into one.
    inner = None if type(sampler) is _data.BatchSampler else getattr(sampler, "sampler", None)
    for holder in (sampler, inner):
        scheme, of = getattr(holder, "scheme", None), getattr(holder, "n", n)
        if isinstance(scheme, Batches):  # those of pabi's own samplers say what they draw
            _require(of == n, f"a sampler of {of} of {n} records")
            drawing = "let make_private draw them, with poisson_sampling=True"
            # Opacus is told 1/len(loader), which can be less.
            _require(
                not isinstance(scheme, Poisson), f"those of a {type(holder).__name__}: {drawing}"
            )
            return DrawnBatches(scheme, n, scheme.per_epoch(n))
    if type(sampler) is _uniform.UniformWithReplacementSampler:
        return _poisson(loader, n)
    _require(type(sampler) is _data.BatchSampler, _unsupported(sampler))
    return _listed(sampler, n)


# What of a loader says which batches it hands out.
_DRAWING = ("__iter__", "__len__", "_get_iterator", "_index_sampler")


def _is_own(loader: Any, name: str) -> bool:
    return getattr(type(loader), name) is not getattr(_data.DataLoader, name)


def probability_of(rate: float) -> float:
    """With which Opacus' sampler draws a record at this rate, rounded up to what its numbers can tell.

    It compares uniform multiples of 2⁻²⁴ (2⁻⁵³ where doubles are torch's default) with the rate, which
    is cast to the same precision, so that slightly more than the rate are below it.
    """
    single = _torch.get_default_dtype() != _torch.float64
    cast = float(_torch.tensor(rate, dtype=_torch.float32)) if single else rate
    unit = 2 ** (24 if single else 53)
    return min(1.0, float(Fraction(math.ceil(Fraction(max(rate, cast)) * unit), unit)))


def _require(holds: object, what: str) -> None:
    """Raises InvalidInput that says what batches are otherwise."""
    require(holds, "loader", f"expected batches that pabi has a scheme for, got {what}")


def _unsupported(sampler: Any) -> str:
    if isinstance(sampler, _memory.BatchSplittingSampler):
        return "the parts of BatchMemoryManager: give the loader that it was made from"
    if isinstance(sampler, _uniform.DistributedUniformWithReplacementSampler):
        return "one worker's share of a distributed run: describe the whole run as a NoisySGD"
    return "no batches" if sampler is None else f"those of a {type(sampler).__name__}"


def _poisson(loader: Any, n: int) -> DrawnBatches:
    sampler = loader.batch_sampler
    _require(sampler.num_samples == n, f"a sampler of {sampler.num_samples} of {n} records")
    # len(loader) is ⌊1/rate⌋, which rounding makes one less for some rates, such as 1/93. Opacus is then told
    # the larger rate, and so is pabi: a larger probability never costs less.
    probability = probability_of(max(float(sampler.sample_rate), 1.0 / len(loader)))
    size = max(1, int(n * probability))
    return DrawnBatches(Poisson(size, probability=probability), n, len(loader))


def _listed(batches: Any, n: int) -> DrawnBatches:
    """A list of the records, cut into batches."""
    sampler, size = batches.sampler, int(batches.batch_size)
    _require(
        type(sampler) in (_data.RandomSampler, _data.SequentialSampler),
        f"the records in the order of a {type(sampler).__name__}",
    )
    _require(
        not getattr(sampler, "replacement", False),
        "records drawn with replacement, so that one can be in a batch twice",
    )
    _require(
        len(sampler) == n == len(sampler.data_source),
        f"a sampler of {len(sampler)} of {n} records",
    )
    rest = n % size if batches.drop_last else 0
    _require(rest < n, f"no batches: drop_last=True, and {n} records are fewer than {size}")
    if size >= n:
        return DrawnBatches(FullBatch(), n, 1)
    if type(sampler) is _data.RandomSampler:
        reshuffled = Reshuffle(size, spare=rest)
        return DrawnBatches(reshuffled, n, reshuffled.per_epoch(n))
    return DrawnBatches(Cyclic(size), n - rest, Cyclic(size).per_epoch(n - rest))


# Findings.


def _findings(loader: Any, accountant: Any) -> list[LoaderFinding]:
    try:
        drawn = drawn_by(loader)
    except InvalidInput as refusal:
        if repeats(loader.dataset):
            return [LoaderFinding("records", WRONG, f"the loader has {REPEATED}")]
        subject = "drop_last" if getattr(loader, "drop_last", False) else "sampler"
        return [LoaderFinding(subject, _severity(loader), str(refusal).partition(": ")[2])]
    return [*_of_batches(drawn, accountant), *_of_sizes(loader, drawn)]


def _of_batches(drawn: DrawnBatches, accountant: Any) -> list[LoaderFinding]:
    """Whether batches are drawn as the accountant charges for."""
    run = getattr(accountant, "run", None)
    if run is None and hasattr(accountant, "describe"):
        return [LoaderFinding("run", UNKNOWN, "the accountant has no run yet: describe(run)")]
    if run is not None:
        return _against(run, drawn)
    name = "the accountant" if accountant is None else f'the accountant "{accountant.mechanism()}"'
    if isinstance(drawn.batches, Poisson):
        return []
    return [
        LoaderFinding(
            "sampling",
            WRONG,
            f"the loader {_how(drawn.batches)}, and {name} charges for Poisson sampling; {_POISSON}",
        )
    ]


def _severity(loader: Any) -> str:
    """Of a loader without a scheme: wrong where it is clear what it does, and that it is another thing."""
    sampler = getattr(loader.batch_sampler, "sampler", None)
    return WRONG if type(sampler) is _data.RandomSampler else UNKNOWN


def _against(run: NoisySGD, drawn: DrawnBatches) -> list[LoaderFinding]:
    """Where a described run has other batches."""
    findings = []
    if run.n != drawn.n:
        message = f"the run is of {run.n} records, and the loader has {drawn.n}"
        findings.append(LoaderFinding("run", WRONG, message))
    if run.batches.kind != drawn.batches.kind:
        message = f"the loader {_how(drawn.batches)}, and the run {_how(run.batches)}"
        findings.append(LoaderFinding("sampling", WRONG, message))
    elif run.n == drawn.n and _apart(run, drawn):
        findings.append(
            LoaderFinding(
                "sampling", WRONG, f"the run has {run.batches}, the loader {drawn.batches}"
            )
        )
    return findings


def _apart(run: NoisySGD, drawn: DrawnBatches) -> bool:
    """Whether schemes of one kind have other sizes, or another probability, of Poisson batches."""
    if not isinstance(drawn.batches, Poisson):
        return run.batches != drawn.batches
    own = rate_of(run)
    return not within_a_number(own, drawn.batches.probability or own)


def rate_of(run: NoisySGD) -> float:
    """The probability of the run's Poisson batches, as a double; 1 over the batches of an epoch of others."""
    batches = run.batches
    if not isinstance(batches, Poisson):
        return 1.0 / run.steps_per_epoch
    return run.batch_size / run.n if batches.probability is None else batches.probability


def within_a_number(rate: float, other: float) -> bool:
    """Whether two probabilities differ by no more than the numbers do that Opacus' sampler compares."""
    return abs(rate - other) <= 2.0**-23


def _of_sizes(loader: Any, drawn: DrawnBatches) -> list[LoaderFinding]:
    """What a batch size does that does not divide the number of records."""
    n, batches = drawn.n, drawn.batches
    if isinstance(batches, Poisson):
        return _of_rate(loader)
    findings = []
    if left_out := _of_left_out(loader, drawn):
        findings.append(LoaderFinding("drop_last", NOTE, left_out))
    sizes = batches.order(n, drawn.steps).sizes
    if isinstance(sizes, FixedSizes) and sizes.last != sizes.size:
        divisor = int(len(loader.dataset) * (1.0 / drawn.steps))
        message = (
            f"the last batch of an epoch has {sizes.last} records, and its sum is divided by "
            f"{divisor} like that of the others, which have {sizes.size}: from_opacus describes that"
        )
        findings.append(LoaderFinding("last batch", NOTE, message))
    return findings


def _of_left_out(loader: Any, drawn: DrawnBatches) -> str:
    """What is to be known of the records that no batch of an epoch has; "" where that is nothing."""
    n, batches = drawn.n, drawn.batches
    left = len(loader.dataset) - n
    if left:
        return f"the last {left} records are never used, and the run has {n}"
    if not isinstance(batches, Reshuffle) or not getattr(loader.batch_sampler, "drop_last", False):
        return ""
    if batches.spare:
        return (
            f"{batches.spare} of {n} records are in no batch of an epoch, others every epoch: the run has "
            f"{n}, and {batches}, as from_opacus describes it"
        )
    # The next larger size of which n is no multiple.
    other = next((size for size in range(batches.size + 1, n) if n % size), None)
    if other is None:
        return ""
    return (
        f"batches of {batches.size} leave none of {n} records out, and batches of {other} would leave some: "
        "their secret order is worth more then, where every iterate is released"
    )


def _of_rate(loader: Any) -> list[LoaderFinding]:
    """Where Opacus draws with another probability than its accountant is told."""
    rate, steps = float(loader.batch_sampler.sample_rate), len(loader)
    if rate * steps > 1.0 - 0.5 / steps:  # 1 but for rounding
        return []
    message = (
        f"records are drawn with {exact(rate)}, and the accountant is told 1/{steps}, which is more"
    )
    return [LoaderFinding("probability", NOTE, message)]


Shapes = tuple[tuple[int, ...], ...]
_ADDED = 1e-6  # to norms, by Opacus, before it divides the clipping norm by them


def from_opacus(
    optimizer: Any,
    loader: Any,
    *,
    loss: Loss,
    epochs: int,
    scheduler: Any = None,
    scheduler_every: str = "epoch",
    adjacency: Any = "zero_out",
    release: str = "last",
) -> NoisySGD:
    """The run that an optimiser and a loader of Opacus do, from the start of training to its end.

    Give what `make_private` returned, before the first step. Neither changes.

    Opacus draws each record with probability 1/len(loader), and divides sums by
    `optimizer.expected_batch_size`: for 60 000 records in batches of 256 by 255, with probability 1/235. The
    description has both numbers. Without Poisson sampling, where the divisor D is not the size b of batches,
    it has the step size ηb/D and the regulariser λD/b, which take the same steps.

    Parameters
    ----------
    optimizer : opacus.optimizers.DPOptimizer
        SGD, with momentum or without, and Adam become the updates of these names, everything else "other".
        Clipping per layer and ghost clipping are accounted by composition alone.
    loader : torch.utils.data.DataLoader
        A `DPDataLoader` is `Poisson`. A loader that shuffles is `Reshuffle`, with n % size spare records if
        `drop_last=True`; one that does not shuffle is `Cyclic`, and one with a sampler of
        `pabi.integrations.torch` is what that says.
    loss : Loss
        What is known of one record's loss, before clipping. The regulariser is the optimiser's
        `weight_decay`; a loss that states an `l2` has to state the same. Opacus scales whole gradients down.
        For predictions of more than one number, such as softmax, the result is no gradient of any function,
        and steps may expand: a gradient bound of at most max_grad_norm − 10⁻⁶ avoids that. A bias is the
        weight of a constant feature 1, which `feature_norm` counts: √(R² + 1) for rows of norm R.
    epochs : int, ≥ 1
        Passes over the loader.
    scheduler : torch.optim.lr_scheduler.LRScheduler, optional
        Before its first step. A copy of it says the step size of every step.
    scheduler_every : str
        "epoch" or "step": what the training loop calls `scheduler.step()` after.
    adjacency : str
        "zero_out" (default), which is nearest to Opacus' adding or removing a record, or "replace_one".
    release : str
        "last", or "path" where other models than the last are published.

    Returns
    -------
    NoisySGD
        What `PabiAccountant.describe` takes, and `guarantee`.

    Raises
    ------
    InvalidInput
        For an optimiser or a loader that no description fits, naming which: adaptive clipping, distributed
        training, sampling with replacement, a record several times, a scheduler that follows a metric, no
        noise, layers clipped to other norms than the noise is made for. Parameters of less than single
        precision. `loss` is that of a linear model, and another module is trained; `feature_norm` of at most
        1 where a bias is trained.

    References
    ----------
    docs, "I have a PyTorch model".
    """
    step, drawn = settings_of(optimizer), drawn_by(loader)
    refuse_other_weights(loss, step.shapes)
    passes = validate.integer("epochs", epochs, at_least=1)
    every = EVERY("scheduler_every", scheduler_every)
    rates, update = learning_rates(optimizer, scheduler, passes, steps=drawn.steps, every=every)
    scale, batches = scaled(drawn, step.divisor)
    if scale != 1 and not (update.plain or isinstance(update, Momentum)):
        update = Other()  # whose steps are not linear in the gradient
    return NoisySGD(
        _described(loss, step.weight_decay, scale, norm=step.max_grad_norm, how=step.clipping),
        n=drawn.n,
        batches=batches,
        steps=passes * drawn.steps,
        step_size=_sizes(rates, scale),
        clip_norm=step.max_grad_norm,
        noise_multiplier=step.noise_multiplier,
        adjacency=adjacency,
        update="sgd" if update.plain else update,
        release=release,
    )


def scaled(drawn: DrawnBatches, divisor: int) -> tuple[Fraction, Any]:
    """(by how much larger a described step size is than the learning rate, the batches described)."""
    if isinstance(drawn.batches, Poisson):
        return Fraction(1), replace(drawn.batches, size=divisor)
    return Fraction(drawn.batches.batch_size(drawn.n), divisor), drawn.batches


def _sizes(rates: list[float], scale: Fraction) -> Any:
    """Step sizes: a number where all are the same. Off by a unit in the last place, where scaled."""
    sizes = np.array(rates) if scale == 1 else np.array([float(Fraction(r) * scale) for r in rates])
    return float(sizes[0]) if np.all(sizes == sizes[0]) else sizes


def _described(loss: Loss, decay: float, scale: Fraction, *, norm: float, how: str) -> Loss:
    """What is known of the loss under Opacus' clipping, with its weight decay. Raises InvalidInput."""
    checked_loss(loss)
    require(
        loss.l2 in (0.0, decay),
        "loss",
        f"expected an l2 of 0, or of the optimiser's weight_decay = {exact(decay)}, which is outside of "
        f"clipping, got {exact(loss.l2)}",
    )
    l2 = fraction_down(Fraction(decay) / scale)
    if how != WHOLE or _nearly_clipped(loss, norm):
        return Loss.unknown(l2, gradient_bound=loss.gradient_bound)
    return loss.with_l2(l2)


def refuse_other_weights(loss: Loss, shapes: Shapes) -> None:
    """Raises InvalidInput for the loss of a linear model, unless what is trained may be its weights."""
    if checked_loss(loss).kind not in LINEAR_LOSSES:
        return
    weights = [shape for shape in shapes if len(shape) != 1]
    biases = [shape for shape in shapes if len(shape) == 1]
    if [len(shape) for shape in weights] != [2] or biases not in ([], [weights[0][:1]]):
        shown = ", ".join(map(str, shapes)) or "none that are known"
        raise InvalidInput(
            "loss",
            f"expected one weight (outputs, features), and a bias or none, for {loss.kind}, the loss of a "
            f"linear model, got parameters of shape {shown}: of another module say Loss.unknown()",
        )
    _refuse_other_outputs(loss, weights[0][0])
    norm = dict(loss.parameters).get("feature_norm")
    if biases and norm is not None and norm <= 1.0:
        raise InvalidInput(
            "feature_norm",
            "expected more than 1, since a bias is trained: it is the weight of a constant feature 1, so "
            f"that rows of norm R count as √(R² + 1); got {exact(norm)}",
        )


def _refuse_other_outputs(loss: Loss, outputs: int) -> None:
    response, classes = LINEAR_LOSSES[loss.kind].response, dict(loss.parameters).get("classes")
    if response in ("sign", "number"):
        expected, fits = "1 output", outputs == 1
    elif classes is not None:
        expected, fits = f"{classes} outputs", outputs == classes
    else:
        expected, fits = "at least 2 outputs", response == "vector" or outputs >= 2
    require(fits, "loss", f"expected {expected} for {loss.kind}, got {outputs}")


def _nearly_clipped(loss: Loss, norm: float) -> bool:
    """Whether gradients that the norm leaves alone are scaled down a little, by norm/(‖g‖ + 10⁻⁶).

    The map g ↦ g·min(1, C/(‖g‖ + 10⁻⁶)) is proximal, since ‖g‖ ↦ ‖g‖·min(1, C/(‖g‖ + 10⁻⁶)) rises, no steeper
    than ‖g‖. So what is proven of clipping holds of it (docs, "Theory", 8), but that a norm above all
    gradients changes none: that is true where a gradient is a number times a fixed vector, and elsewhere
    nothing is claimed.
    """
    bound = loss.gradient_bound
    return not loss.glm and bound is not None and norm - _ADDED < bound <= norm

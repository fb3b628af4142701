"""How a loader of PyTorch or Opacus draws batches, as a batch scheme, and whether it is accounted as that.

Opacus' own accountants charge for Poisson sampling whatever the loader does. A loader that shuffles costs
far more than they say, unless only the last iterate is released and its steps do not expand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pabi.describe.batches import Batches, Cyclic, FullBatch, Poisson, Reshuffle
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra
from pabi.numbers.fields import flag
from pabi.numbers.showing import exact

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
    "balls_in_bins": "puts every record into one of the batches, once",
    "fixed_size": "draws batches of a fixed size",
    "poisson": "draws each record by itself",
}


@dataclass(frozen=True)
class DrawnBatches:
    """What a loader draws: `batches` of `n` records, `steps` of them in one pass over the loader."""

    batches: Batches
    n: int
    steps: int


@dataclass(frozen=True)
class LoaderFinding:
    """Something about a loader that an accountant's number does not cover, or that its user should know.

    Attributes
    ----------
    subject : str
        What it is about: "sampling", "drop_last", "last batch", "sampler", "probability", "divisor" or "run".
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
    strict = flag("strict", strict)
    require_loader(loader)
    findings = LoaderFindings([*_of_batches(loader, accountant), *_of_sizes(loader)])
    for finding in findings:
        if strict and finding.severity != NOTE:
            raise InvalidInput("loader", str(finding))
    return findings


def require_loader(loader: Any) -> None:
    """Raises InvalidInput unless it is a DataLoader."""
    if not isinstance(loader, _data.DataLoader):
        kind = type(loader).__name__
        raise InvalidInput("loader", f"expected a torch.utils.data.DataLoader, got a {kind}")


def drawn_by(loader: Any) -> DrawnBatches:
    """How a loader draws batches. The size of Poisson batches is the expected one, rounded down.

    Raises InvalidInput, naming `loader`, for what is no scheme of pabi.
    """
    require_loader(loader)
    if isinstance(loader.dataset, _data.IterableDataset):
        raise _refusal("an IterableDataset, whose order and batches nobody can say")
    sampler = loader.batch_sampler
    n = len(loader.dataset)
    for holder in (sampler, getattr(sampler, "sampler", None)):
        scheme, own = getattr(holder, "scheme", None), getattr(holder, "n", n)
        if isinstance(scheme, Batches):  # those of pabi's own samplers say what they draw
            if own != n:
                raise _refusal(f"a sampler of {own} of {n} records")
            if isinstance(scheme, Poisson):  # Opacus is told 1/len(loader), which can be less
                drawing = "let make_private draw them, with poisson_sampling=True"
                raise _refusal(f"those of a {type(holder).__name__}: {drawing}")
            return DrawnBatches(scheme, n, scheme.per_epoch(n))
    if type(sampler) is _uniform.UniformWithReplacementSampler:
        return _poisson(loader, n)
    if type(sampler) is _data.BatchSampler:
        return _listed(sampler, n)
    raise _refusal(_unsupported(sampler))


def probability_of(rate: float) -> float:
    """With which Opacus' sampler draws a record at this rate, rounded up to what its numbers can tell.

    It compares uniform multiples of 2⁻²⁴ (2⁻⁵³ where doubles are torch's default) with the rate, which
    is cast to the same precision, so that slightly more than the rate are below it.
    """
    single = _torch.get_default_dtype() != _torch.float64
    cast = float(_torch.tensor(rate, dtype=_torch.float32)) if single else rate
    unit = 2 ** (24 if single else 53)
    return min(1.0, float(Fraction(math.ceil(Fraction(max(rate, cast)) * unit), unit)))


def _refusal(what: str) -> InvalidInput:
    return InvalidInput("loader", f"expected batches that pabi has a scheme for, got {what}")


def _unsupported(sampler: Any) -> str:
    if isinstance(sampler, _memory.BatchSplittingSampler):
        return "the parts of BatchMemoryManager: give the loader that it was made from"
    if isinstance(sampler, _uniform.DistributedUniformWithReplacementSampler):
        return "one worker's share of a distributed run: describe the whole run as a NoisySGD"
    return "no batches" if sampler is None else f"those of a {type(sampler).__name__}"


def _poisson(loader: Any, n: int) -> DrawnBatches:
    sampler = loader.batch_sampler
    if sampler.num_samples != n:
        raise _refusal(f"a sampler of {sampler.num_samples} of {n} records")
    # len(loader) is ⌊1/rate⌋, which rounding makes one less for some rates, such as 1/93. Opacus is then told
    # the larger rate, and so is pabi: a larger probability never costs less.
    probability = probability_of(max(float(sampler.sample_rate), 1.0 / len(loader)))
    size = max(1, int(n * probability))
    return DrawnBatches(Poisson(size, probability=probability), n, len(loader))


def _listed(batches: Any, n: int) -> DrawnBatches:
    """A list of the records, cut into batches."""
    sampler, size = batches.sampler, int(batches.batch_size)
    if type(sampler) not in (_data.RandomSampler, _data.SequentialSampler):
        raise _refusal(f"the records in the order of a {type(sampler).__name__}")
    if getattr(sampler, "replacement", False):
        raise _refusal("records drawn with replacement, so that one can be in a batch twice")
    if len(sampler) != n or len(sampler.data_source) != n:
        raise _refusal(f"a sampler of {len(sampler)} of {n} records")
    shuffled = type(sampler) is _data.RandomSampler
    rest = n % size if batches.drop_last else 0
    if rest and shuffled:
        raise _refusal(
            f"drop_last=True with {rest} records left out, others every epoch: leave them out once, before"
        )
    if size >= n:
        return DrawnBatches(FullBatch(), n, 1)
    scheme = Reshuffle(size) if shuffled else Cyclic(size)
    return DrawnBatches(scheme, n - rest, scheme.per_epoch(n - rest))


# Findings.


def _of_batches(loader: Any, accountant: Any) -> list[LoaderFinding]:
    """Whether batches are drawn as the accountant charges for."""
    run = getattr(accountant, "run", None)
    ours = hasattr(accountant, "describe")
    try:
        drawn = drawn_by(loader)
    except InvalidInput as refusal:
        subject = "drop_last" if getattr(loader, "drop_last", False) else "sampler"
        return [LoaderFinding(subject, _severity(loader), str(refusal).partition(": ")[2])]
    if ours and run is None:
        return [LoaderFinding("run", UNKNOWN, "the accountant has no run yet: describe(run)")]
    if run is not None:
        return _against(run, drawn)
    name = "the accountant" if accountant is None else f'the accountant "{accountant.mechanism()}"'
    kind = drawn.batches.kind
    if kind == "poisson":
        return []
    return [
        LoaderFinding(
            "sampling",
            WRONG,
            f"the loader {_HOW[kind]}, and {name} charges for Poisson sampling; {_POISSON}",
        )
    ]


def _severity(loader: Any) -> str:
    """Of a loader without a scheme: wrong where it is clear what it does, and that it is another thing."""
    sampler = getattr(loader.batch_sampler, "sampler", None)
    clear = type(sampler) is _data.RandomSampler
    return WRONG if clear else UNKNOWN


def _against(run: NoisySGD, drawn: DrawnBatches) -> list[LoaderFinding]:
    """Where a described run has other batches."""
    findings = []
    if run.n != drawn.n:
        message = f"the run is of {run.n} records, and the loader has {drawn.n}"
        findings.append(LoaderFinding("run", WRONG, message))
    if run.batches.kind != drawn.batches.kind:
        message = f"the loader {_HOW[drawn.batches.kind]}, and the run {_HOW[run.batches.kind]}"
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


def _of_sizes(loader: Any) -> list[LoaderFinding]:
    """What a batch size does that does not divide the number of records."""
    try:
        drawn = drawn_by(loader)
    except InvalidInput:
        return []
    n, batches = drawn.n, drawn.batches
    if isinstance(batches, Poisson):
        return _of_rate(loader)
    size = batches.batch_size(n)
    findings = []
    if n < len(loader.dataset):
        left = len(loader.dataset) - n
        message = f"the last {left} records are never used, and the run has {n}"
        findings.append(LoaderFinding("drop_last", NOTE, message))
    if n % size:
        divisor = int(n * (1.0 / drawn.steps))
        message = (
            f"the last batch of an epoch has {n % size} records, and its sum is divided by "
            f"{divisor} like that of the others, which have {size}: from_opacus describes that"
        )
        findings.append(LoaderFinding("last batch", NOTE, message))
    return findings


def _of_rate(loader: Any) -> list[LoaderFinding]:
    """Where Opacus draws with another probability than its accountant is told."""
    rate, steps = float(loader.batch_sampler.sample_rate), len(loader)
    if rate * steps > 1.0 - 0.5 / steps:  # 1 but for rounding
        return []
    message = (
        f"records are drawn with {exact(rate)}, and the accountant is told 1/{steps}, which is more"
    )
    return [LoaderFinding("probability", NOTE, message)]

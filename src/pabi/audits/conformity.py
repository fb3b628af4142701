"""Whether a trainer does what a run says: its models beside models of the run itself, on the same data sets.

A test is a set of models on each data set, chosen before anything is trained so that a fault makes it more
likely. Under the run, a trainer's models and ours have one law. So, however many of both together are in the
set, which of them are the trainer's is random, and the number of those is hypergeometric. Tests are exact at
any level, and share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtri
from scipy.stats import binom

from pabi.audits import probes
from pabi.audits.laws import Counts, above
from pabi.describe.runs import NoisySGD
from pabi.numbers import validate
from pabi.numbers.locking import waiting
from pabi.numbers.rounding import Array
from pabi.numbers.showing import aligned, exact, plain

POWER = 0.8
FEWEST = 100  # trainings of an audit
DATA_SETS = len(probes.NAMES)

_BINS = 40  # of equal probability, which sets are made of
_CHOSEN = 6_000  # models of a fault for which a set is chosen,
_MEASURED = (
    1_000,
    4_000,
    16_000,
)  # and those for which it is measured how likely they are in the set
_UNSURE = 0.1  # how likely what is measured may be too high or too low
_REFERENCE = 20  # models of ours for each one of the trainer,
_FEWEST, _MOST = 40_000, 200_000  # within these
_USUAL = 0.75  # of the level, for faults that are known; the rest for any others
_MOST_TRAININGS = 10**6
_ROUNDINGS = 1e-14  # what sums lose at most by what they leave out
_RELATIVE = 1e-6  # of logarithms of factorials that cancel


@dataclass(frozen=True)
class Reachable:
    """What an audit finds of one kind of fault.

    Attributes
    ----------
    kind : str
        What is not as described.
    least : str or None
        The least of the sizes that were tried that is found; None where none is, "" where there is one size.
    size : str
        The size that `trainings` is about.
    trainings : int or None
        How many find it; None where a million do not.

    References
    ----------
    docs, "Audits".
    """

    kind: str
    least: str | None
    size: str
    trainings: int | None


@dataclass(frozen=True)
class Reach:
    """What so many trainings of a trainer find, said before they begin.

    It is measured on thousands of models of faulty runs. Faults of other kinds, and lesser ones, may be found
    as well, or not.

    Attributes
    ----------
    trainings : int
        How many there are.
    confidence : float
        With which an audit says that a trainer does not do what the run says.
    power : float
        How likely a fault is found that is said to be.
    faults : tuple of Reachable
        By kind.

    References
    ----------
    docs, "Audits".
    """

    trainings: int
    confidence: float
    power: float
    faults: tuple[Reachable, ...]

    def to_dict(self) -> dict[str, Any]:
        """What is found as plain numbers and words.

        Returns
        -------
        dict
            JSON-ready.

        Raises
        ------
        Nothing.
        """
        return {**vars(self), "faults": [dict(vars(fault)) for fault in self.faults]}

    def __str__(self) -> str:
        rows = [["fault", "least that is found", "trainings that find"]]
        for fault in self.faults:
            least = "none that was tried" if fault.least is None else fault.least or "found"
            needed = "more than 10^6" if fault.trainings is None else str(fault.trainings)
            rows.append([fault.kind, least, f"{fault.size + ': ' if fault.size else ''}{needed}"])
        head = (
            f"{self.trainings} trainings find, at confidence {exact(self.confidence)} and with probability "
            f"{exact(self.power)}:"
        )
        return "\n".join([head, *aligned(rows)])


@dataclass(frozen=True)
class Conformity:
    """Whether a trainer's models follow the law that the run has, on data sets that bring faults out.

    Attributes
    ----------
    trainings : int
        Models that were looked at.
    confidence : float
        With which `refuted` is right.
    p_value : float
        How likely models of the run itself look as strange as this, at most: all tests together, and twice,
        as half of the confidence is that of the bounds on errors.
    resembles : str
        The fault whose test says so, or what is strange in the models.

    References
    ----------
    Fisher 1935; docs, "Audits".
    """

    trainings: int
    confidence: float
    p_value: float
    resembles: str

    @property
    def refuted(self) -> bool:
        """Whether the trainer does something else than the run, with the stated confidence."""
        return self.p_value <= 1.0 - self.confidence

    def __str__(self) -> str:
        if not self.refuted:
            return f"nothing else was found in {self.trainings} trainings"
        p = plain(self.p_value, 2)
        return f"NOT AS DESCRIBED, p = {p}; closest fault that was tried: {self.resembles}"


@dataclass(frozen=True, eq=False)
class _Test:
    """A set of models on each data set: whether a model in each bin belongs to it.

    `share`: of the level. `inside`: (data sets, bins).
    """

    name: str
    share: float
    inside: NDArray[np.bool_]

    @property
    def used(self) -> NDArray[np.intp]:
        """The data sets in which something is tested."""
        return np.flatnonzero(self.inside.any(axis=1))


class TrainerTests:
    """The tests of a run for so many trainings, with models of our own that trainers' are compared with."""

    def __init__(
        self, run: NoisySGD, trainings: int, confidence: float, generator: np.random.Generator
    ) -> None:
        probes.refuse_untested(run)
        self._generator, self._sure = generator, confidence
        self._error = 0.5 * (1.0 - confidence)  # the other half is for the bounds on errors
        self.data: tuple[probes.CanaryData, ...] = probes.probes(run)
        self.each = trainings // DATA_SETS
        self._count = _references(self.each)
        plain_models = self._models(run, range(DATA_SETS), self._count)
        shares = np.arange(1, _BINS) / _BINS
        self._edges = [np.quantile(models, shares) for models in plain_models]
        self._faults = list(probes.faults(run))
        self._tests = self._chosen([self._binned(i, x) for i, x in enumerate(plain_models)])
        # Other models than those that the sets were chosen with.
        again = self._models(run, range(DATA_SETS), self._count)
        self._reference = [self._binned(i, x) for i, x in enumerate(again)]

    def _models(self, run: NoisySGD, which: Sequence[int] | range, count: int) -> list[Array]:
        return [probes.models(run, self.data[i], count, self._generator) for i in which]

    def _binned(self, which: int, models: Array) -> NDArray[np.int64]:
        """(bins,) how many of the models are in each."""
        return np.bincount(np.searchsorted(self._edges[which], models), minlength=_BINS)

    # What is tested.

    def _chosen(self, usual: list[NDArray[np.int64]]) -> list[_Test]:
        share = _USUAL / len(self._faults)
        tests = []
        for fault in self._faults:
            faulty = self._models(fault.runs[fault.usual], range(DATA_SETS), _CHOSEN)
            counts = [self._binned(i, x) for i, x in enumerate(faulty)]
            tests.append(_Test(fault.kind, share, self._likelier(usual, counts, share)))
        return tests + _any_others()

    def _likelier(
        self, usual: list[NDArray[np.int64]], faulty: list[NDArray[np.int64]], share: float
    ) -> NDArray[np.bool_]:
        """The sets that show the most of a fault; on data sets that show nothing of it they are empty."""
        quantile = -float(ndtri(share * self._error))
        inside, shown = np.zeros((DATA_SETS, _BINS), dtype=bool), []
        for i in range(DATA_SETS):
            best, inside[i] = _interval(usual[i], faulty[i], self.each, quantile)
            shown.append((best, i))
        shown.sort(reverse=True)
        p, q = (
            np.array([_probabilities(counts[i])[inside[i]].sum() for _, i in shown])[:, None]
            for counts in (usual, faulty)
        )
        together = [
            float(_standardised(p[:k], q[:k], self.each, quantile)[0])
            for k in range(1, DATA_SETS + 1)
        ]
        for _, i in shown[int(np.argmax(together)) + 1 :]:
            inside[i] = False
        return inside

    # What came out.

    def tested(self, models: Sequence[Array]) -> Conformity:
        """What `each` models of a trainer on each data set show."""
        binned = [self._binned(i, x) for i, x in enumerate(models)]
        values = []
        for test in self._tests:
            hits = [int(binned[i][test.inside[i]].sum()) for i in test.used]
            p = p_value(hits, self._inside(test), self.each, self._count)
            values.append((min(1.0, 2.0 * p / test.share), test.name))
        least = min(values, key=lambda one: one[0])
        return Conformity(DATA_SETS * self.each, self._sure, *least)

    def _inside(self, test: _Test) -> list[int]:
        """How many models of ours are in the set, on each data set in which it has any."""
        return [int(self._reference[i][test.inside[i]].sum()) for i in test.used]

    # What would.

    def _measured(self, run: NoisySGD, test: _Test, count: int) -> Counts:
        """How many models of a run are in the set, on each data set in which it has any."""
        models = zip(test.used, self._models(run, test.used.tolist(), count), strict=True)
        return np.array([self._binned(i, x)[test.inside[i]].sum() for i, x in models])

    def reach(self) -> Reach:
        """What the tests find of each kind of fault."""
        rows = [self._reachable(*pair) for pair in zip(self._faults, self._tests, strict=False)]
        return Reach(DATA_SETS * self.each, self._sure, POWER, tuple(rows))

    def _reachable(self, fault: probes.Fault, test: _Test) -> Reachable:
        level = test.share * self._error
        usual = above(np.array(self._inside(test)), self._count, _UNSURE)
        counts: dict[tuple[int, int], Counts] = {}

        def finds(size: int, each: int) -> bool:
            """From few models of the fault where they decide, and from more where they do not."""
            share = each / (each + _references(each))
            for many in _MEASURED:
                if (size, many) not in counts:
                    counts[size, many] = self._measured(fault.runs[size], test, many)
                hits = counts[size, many]
                least = 1.0 - above(many - hits, many, _UNSURE)
                if power(usual, least, each, level, share) >= POWER:
                    return True
                if power(usual, above(hits, many, _UNSURE), each, level, share) < POWER:
                    return False
            return False

        low, high = -1, len(fault.runs) - 1
        if not finds(high, self.each):
            least = None
        else:
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if finds(middle, self.each) else (middle, high)
            least = fault.sizes[high]
        needed = _least_each(lambda each: finds(fault.usual, each))
        total = None if needed is None else DATA_SETS * needed
        return Reachable(fault.kind, least, fault.sizes[fault.usual], total)


def reach(
    run: NoisySGD,
    *,
    trainings: int = 100_000,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> Reach:
    """What `pabi.audit(run, train=…)` with so many trainings finds, before anything is trained.

    The run and runs with faults are executed on the data sets of the audit, thousands of models side by side.

    Parameters
    ----------
    run : NoisySGD
        What is promised to be done.
    trainings : int
        Models of the audit, a quarter of them of each data set; at least 100.
    confidence : float, in (0, 1)
        Of the audit.
    random_state : None, int or numpy Generator
        Of the models here; no data are at stake.

    Returns
    -------
    Reach
        The least fault of each kind that is found with probability 0.8.

    Raises
    ------
    InvalidInput
        For an argument out of its range, and for a loss without canaries.
    NotApplicable
        Where models are not one number: for users with several rows, for updates and proximal maps that pabi
        does not execute on one number.

    References
    ----------
    docs, "Audits".
    """
    validate.instance("run", run, NoisySGD, "a NoisySGD")
    count = validate.integer("trainings", trainings, at_least=FEWEST)
    sure = validate.number("confidence", confidence, above=0.0, below=1.0)
    with waiting(f"what {count} trainings find"):
        return TrainerTests(run, count, sure, np.random.default_rng(random_state)).reach()


def _references(each: int) -> int:
    """How many models of ours so many of a trainer are compared with."""
    return int(np.clip(_REFERENCE * each, _FEWEST, _MOST))


def _any_others() -> list[_Test]:
    """Whether models are lower, higher, nearer to the middle or farther out than they should be."""
    bins = np.arange(_BINS)
    sets = {
        "models that are too low": 2 * bins < _BINS,
        "models that are too high": 2 * bins >= _BINS,
        "models that vary too little": np.abs(2 * bins + 1 - _BINS) < _BINS // 2,
        "models that vary too much": np.abs(2 * bins + 1 - _BINS) > _BINS // 2,
    }
    tests = []
    for i, where in enumerate(probes.NAMES):
        for name, chosen in sets.items():
            inside = np.zeros((DATA_SETS, _BINS), dtype=bool)
            inside[i] = chosen
            share = (1.0 - _USUAL) / (DATA_SETS * len(sets))
            tests.append(_Test(f"{name} on {where}", share, inside))
    return tests


def _probabilities(counts: Counts) -> Array:
    return np.asarray((counts + 0.5) / (counts.sum() + 0.5 * len(counts)))


def _interval(
    usual: Counts, faulty: Counts, each: int, quantile: float
) -> tuple[float, NDArray[np.bool_]]:
    """(what it shows, its bins) of the interval, or what is outside of one, that shows the most."""
    p, q = (np.append(0.0, np.cumsum(_probabilities(counts))) for counts in (usual, faulty))
    low, high = np.triu_indices(len(p), 1)
    keep = high - low < _BINS
    low, high = low[keep], high[keep]
    p, q = p[high] - p[low], q[high] - q[low]
    values = [_standardised(*r, each, quantile) for r in ((p, q), (1.0 - p, 1.0 - q))]
    outer, best = np.unravel_index(int(np.argmax(values)), (2, len(p)))
    bins = np.arange(_BINS)
    inside = (bins >= low[best]) & (bins < high[best])
    return float(values[outer][best]), inside ^ bool(outer)


def _standardised(p: Array, q: Array, each: int, quantile: float) -> Array:
    """By how many standard deviations models of a fault are beyond what the run's own exceed rarely.

    `p`, `q`: (…) or (data sets, 1), how likely both are in a set.
    """
    p, q = (r.reshape(-1, r.shape[-1]) for r in (p, q))
    usual, faulty = ((r * (1.0 - r)).sum(axis=0) + 1e-12 for r in (p, q))
    beyond = each * (q - p).sum(axis=0) - quantile * np.sqrt(each * usual)
    return np.asarray(beyond / np.sqrt(each * faulty))


def p_value(hits: Sequence[int], reference: Sequence[int], each: int, count: int) -> float:
    """How likely at least so many are found, all data sets together, if both sides have one law; at most.

    `hits`: models of the trainer in the set, of `each` on every data set. `reference`: ours, of `count`.
    """
    first, laws = 0, np.ones(1)
    for k, r in zip(hits, reference, strict=True):
        share, drawn = (k + r) / (each + count), count / (each + count)
        low, high = probes.window(each, share, drawn)
        law = _hypergeometric(np.arange(low, high + 1), each, count, k + r)
        first, laws = first + low, np.convolve(laws, law)
    beyond = laws[max(0, sum(hits) - first) :].sum()
    return min(1.0, float(beyond) * (1.0 + _RELATIVE) + _ROUNDINGS)


def _hypergeometric(k: NDArray[np.int64], each: int, count: int, total: int) -> Array:
    """How likely `k` of `total` that have a property are among `each`, and not among `count` others."""

    def ways(n: int, k: NDArray[np.int64] | int) -> Array:
        return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))

    possible = (k <= total) & (total - k <= count)
    some = k[possible]
    law = np.zeros(len(k))
    law[possible] = np.exp(ways(each, some) + ways(count, total - some) - ways(each + count, total))
    return law


def power(usual: Array, faulty: Array, each: int, level: float, share: float) -> float:
    """How likely a fault is found, at least, with so many models on every data set.

    `usual`, `faulty`: (data sets,) how likely models of the run, and of the fault, are in the set. `share`:
    of the trainer's among all models, whose mean its own models move.
    """
    mixed = np.maximum(usual, (1.0 - share) * usual + share * faulty)
    first, law = _sum_of_binomials(mixed, each)
    tails = np.cumsum(law[::-1])[::-1] + _ROUNDINGS
    rare = np.flatnonzero(tails <= level)
    needed = first + (int(rare[0]) if len(rare) else len(law))
    first, law = _sum_of_binomials(faulty, each)
    return float(law[max(0, needed - first) :].sum())


def _sum_of_binomials(probabilities: Array, each: int) -> tuple[int, Array]:
    """(the least value that is kept, the probabilities of it and of those after it)."""
    first, laws = 0, np.ones(1)
    for p in probabilities:
        low, high = probes.window(each, float(p))
        law = binom.pmf(np.arange(low, high + 1), each, float(p))
        first, laws = first + low, np.convolve(laws, law)
    return first, laws


def _least_each(finds: Callable[[int], bool]) -> int | None:
    """The fewest models on each data set that find a fault, to a few per cent; None beyond the most."""
    high = 8
    while not finds(high):
        high *= 2
        if DATA_SETS * high > _MOST_TRAININGS:
            return None
    low = high // 2
    while high > 1.03 * low + 1 and high > 8:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high

"""Independent parts of a release as tasks of a cluster, with workers that are all alike."""

from __future__ import annotations

import hashlib
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pydoc import locate
from time import monotonic
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pabi.budget.ledger import Ledger
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.describe.vector_losses import executable
from pabi.execute.hiding import Machines, Part, Result, Terms
from pabi.execute.linear_gradients import LossGradients
from pabi.execute.records import Records
from pabi.execute.sums import Limit
from pabi.learn.search import PrivateSearchCV, fit_on
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, extra, require
from pabi.numbers.version import __version__
from pabi.sampling.chains import Gradient, diffusion_on, langevin_on
from pabi.sampling.draws import Draws, ExactDraws
from pabi.sampling.exact import MOST_EVALUATIONS, LossCallable, gibbs_rejection_on

# What workers compute with: all of them alike, so that it does not matter which one makes a sum.
#
# Two data sets that differ in one record must share the gradients of all others to the last bit (docs,
# "Theory", 9). Other processors, versions or numbers of threads may round in other ways. So every result
# says what it was made with.


_PATIENCE = 30  # seconds without any worker
_LOOK = 2.0  # seconds between two looks at whether there are workers
_ROWS, _COLUMNS, _CLASSES = 4096, 40, 3  # enough for several threads to share a product


@cache
def arithmetic() -> str:
    """The versions of pabi and numpy here, and a hash of sums over public rows."""
    rng = np.random.Generator(np.random.PCG64(0))
    records = Records(rng.standard_normal((_ROWS, _COLUMNS)), 1.0)
    labels = rng.integers(0, _CLASSES, _ROWS)
    digest = hashlib.sha256()
    for loss, targets, classes in (
        (executable("logistic"), labels > 0, None),
        (executable("softmax"), labels, _CLASSES),
    ):
        gradients = LossGradients(loss, records, targets, classes)
        point = rng.standard_normal(gradients.shape)
        for anywhere in (False, True):
            total = gradients.clipped_sum(point, slice(0, _ROWS), Limit(1.0, 1.0, anywhere))
            digest.update(total.tobytes())
    return f"pabi {__version__}, numpy {np.__version__}, sums {digest.hexdigest()[:12]}"


def check_client(client: Any) -> None:
    """Raises InvalidInput unless it is a client of Dask that waits, whose workers have this pabi."""
    distributed = extra("distributed", "dask")
    validate.instance("client", client, distributed.Client, "a distributed.Client")
    require(
        not client.asynchronous, "client", "expected one that waits, got one with asynchronous=True"
    )
    _refuse_closed(client)
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
        # A function of the standard library: workers without pabi know it, too.
        versions = client.run(locate, "pabi.numbers.version.__version__", on_error="return")
    except TimeoutError:
        raise InvalidInput(
            "client", f"expected a worker within {_PATIENCE} seconds, got none"
        ) from None
    except Exception as bad:
        raise InvalidInput("client", f"cannot ask its workers: {type(bad).__name__}") from None
    for worker, version in versions.items():
        if version != __version__ and not isinstance(version, OSError):  # of one that is gone
            present = f"pabi {version}" if isinstance(version, str) else "none that loads"
            raise InvalidInput(
                "client", f"expected pabi {__version__} on every worker, got {present} at {worker}"
            )


def _refuse_closed(client: Any) -> None:
    require(
        client.status == "running",
        "client",
        f"expected one that is connected, got one that is {client.status}",
    )


def gathered(client: Any, futures: list[Any]) -> list[Any]:
    """The values of all futures. Raises what Dask does where tasks fail.

    Without workers Dask's own wait never ends: InvalidInput once there have been none for a while.
    """
    distributed = extra("distributed", "dask")
    alone_since: float | None = None
    while True:
        try:
            distributed.wait(futures, timeout=_LOOK)
            return list(client.gather(futures))
        except TimeoutError:
            _refuse_closed(client)
        if client.scheduler_info()["workers"]:
            alone_since = None
        elif alone_since is None:
            alone_since = monotonic()
        elif monotonic() - alone_since > _PATIENCE:
            raise InvalidInput(
                "client",
                f"expected workers, got none for {_PATIENCE} seconds; nothing was released: start workers "
                "and call again",
            )


def trusted(sight: str) -> str:
    """What a guarantee assumes of a cluster that sees this."""
    return (
        "scheduler and workers of the cluster, and the network between them and this machine, compute and "
        f"carry what they are asked to and keep it to themselves: they see {sight}"
    )


def release(futures: Iterable[Any]) -> None:
    """Lets the workers forget what these stand for, even while the traceback of an error holds them."""
    for future in futures:
        future.release()


def arithmetic_of(client: Any) -> str:
    """What its workers compute with. Raises InvalidInput where they compute in different ways."""
    try:
        answers = client.run(arithmetic, on_error="return").values()
    except Exception as bad:
        raise InvalidInput("client", f"cannot ask its workers: {type(bad).__name__}") from None
    ways = [
        answer for answer in answers if isinstance(answer, str)
    ]  # others are of those that are gone
    require(ways, "client", "expected workers, got none that answers")
    for way in ways:
        check_alike(ways[0], way)
    return ways[0]


def check_alike(one: str, other: str) -> None:
    """Raises InvalidInput where workers compute in different ways."""
    require(
        one == other,
        "client",
        f"expected workers that compute alike, got one with {one} and one with {other}: take one kind of "
        "processor, one number of threads for products (OMP_NUM_THREADS), and the same packages",
    )


# Values that travel between this process and workers, which show nothing of what they hold.


@dataclass(frozen=True, eq=False, repr=False)
class Hidden:
    """A value that nobody but pabi is to see."""

    value: Any


@dataclass(frozen=True)
class Refusal:
    """Why a worker does not compute something, in one line without data."""

    field: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Self:
        """What an error says: our own its line, any other its kind alone."""
        if isinstance(error, InvalidInput):
            return cls(error.field, str(error).removeprefix(f"{error.field}: "))
        return cls("client", f"a worker failed: {type(error).__name__}")


_AHEAD = 2  # tasks for each thread of the cluster that are asked for at once
_ANY_SIZE = 1 << 60  # bytes of what travels once for all tasks: Dask would warn of 10 MB


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """What a worker made of a part. `place`: (of which work, the number of the part)."""

    place: tuple[str, int]
    arithmetic: str
    value: Any


def itself(function: Hidden) -> Hidden:
    """What all tasks of a work share, as a task of its own: a worker that is lost loses a copy."""
    return function


def answer(function: Hidden, place: tuple[str, int], part: Hidden) -> Answer | Refusal:
    """What the function makes of the part."""
    try:
        # A floating-point warning would report on a hidden iterate.
        with np.errstate(all="ignore"):
            return Answer(place, arithmetic(), function.value(part.value))
    except Exception as bad:
        return Refusal.of(bad)


class Cluster(Machines):
    """The workers of a client of Dask's.

    `noun`: of a task, in its name. `sight`: what the cluster sees, for the assumption. Raises InvalidInput
    unless there are workers, with this pabi, that compute alike.
    """

    def __init__(self, client: Any, noun: str, sight: str) -> None:
        check_client(client)
        self._client, self._noun = client, noun
        self._arithmetic = arithmetic_of(client)
        self.assumed = (trusted(sight),)
        self.together = max(1, sum(client.nthreads().values()))

    def results(
        self, function: Callable[[Part], Result], parts: Iterable[Part]
    ) -> Iterator[Result]:
        """What the function makes of every part, each once, in their order.

        Only a few tasks for each thread are asked for at once.
        """
        work, questions, count = uuid.uuid4().hex, enumerate(parts), 0
        shared = self._submit(f"{self._noun}s-{work}", itself, Hidden(function))
        futures: deque[Any] = deque()
        try:
            while True:
                for number, part in islice(questions, _AHEAD * self.together - len(futures)):
                    name, place = f"{self._noun}-{work}-{number}", (work, number)
                    futures.append(self._submit(name, answer, shared, place, Hidden(part)))
                if not futures:
                    return
                value = self._value(futures[0], (work, count))
                release([futures.popleft()])
                count += 1
                yield value
        finally:
            release([shared, *futures])

    def _submit(self, name: str, function: Any, *arguments: Any) -> Any:
        config = extra("dask", "dask").config
        try:
            with config.set({"distributed.admin.large-graph-warning-threshold": _ANY_SIZE}):
                return self._client.submit(function, *arguments, key=f"pabi-{name}", pure=False)
        except Exception as bad:
            raise InvalidInput("client", f"cannot send it work: {type(bad).__name__}") from None

    def _value(self, future: Any, place: tuple[str, int]) -> Any:
        try:
            (value,) = gathered(self._client, [future])
        except InvalidInput:
            raise
        except Exception as bad:
            raise InvalidInput("client", f"the cluster failed: {type(bad).__name__}") from None
        if isinstance(value, Refusal):
            raise InvalidInput(value.field, value.message)
        require(
            value.place == place, "client", "a worker answered another question than it was asked"
        )
        check_alike(self._arithmetic, value.arithmetic)
        return value.value


# Draws of pabi's samplers, of which a cluster's workers compute some each.
#
# Every task computes some of the chains whole, and only what is released of them comes back. The
# guarantee is that of the same chains on one machine, which have independent noise wherever they run.


_SIGHT = "records, noise and hidden iterates"


def langevin(
    chain: LangevinChain,
    gradient: Gradient,
    x0: ArrayLike,
    thin: int = 1,
    random_state: int | np.random.Generator | None = None,
    *,
    client: Any,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
) -> Draws:
    """Draws of `chain`, whose chains run on a cluster's workers, with their guarantee.

    The chains are cut into as many parts as the cluster has threads, and every part is a task. This process
    draws a key of 256 bits a part, from which all randomness of the part follows. So a part whose worker is
    lost is computed again as it was, and which workers are lost, and when, has no influence on what is
    released.

    Parameters
    ----------
    chain, x0, thin, random_state, delta, ledger
        As of `pabi.sampling.langevin`. From a `random_state` the keys follow.
    gradient : callable
        As of `pabi.sampling.langevin`, `mean_gradient(X, y, loss)` for example. It travels to the workers,
        with the records that it holds, and several threads of a worker may call it at the same time.
    client : distributed.Client
        The cluster. Its workers have the same pabi.

    Returns
    -------
    Draws
        As of `pabi.sampling.langevin`, in the order of the chains. The guarantee assumes that the cluster
        keeps to itself what it sees.

    Raises
    ------
    InvalidInput
        The extra `dask` is not installed. `client` is none, or its workers lack pabi, have another version,
        or compute in different ways. The cluster failed. Anything that `pabi.sampling.langevin` refuses; what
        another error of `gradient` says is not shown. Nothing was released.
    NotApplicable, BudgetExceeded
        As of `pabi.sampling.langevin`.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.
    SamplingWarning
        As of `pabi.sampling.langevin`.

    References
    ----------
    docs, "I have a cluster"; docs, "Sampling".
    """
    terms = Terms(
        delta=delta,
        random_state=random_state,
        ledger=ledger,
        machines=Cluster(client, "chain", _SIGHT),
    )
    return langevin_on(terms, chain, gradient, x0, thin)


def diffusion(
    diffusion: LangevinDiffusion,
    gradient: Gradient,
    x0: ArrayLike,
    domain: Any = None,
    *,
    steps: int,
    client: Any,
    chains: int = 1,
    thin: int = 1,
    random_state: int | np.random.Generator | None = None,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
) -> Draws:
    """Draws of the chain that follows `diffusion`, whose chains run on a cluster's workers.

    Parameters
    ----------
    diffusion, x0, domain, steps, chains, thin, random_state, delta, ledger
        As of `pabi.sampling.diffusion`.
    gradient, client
        As of `pabi.integrations.dask.langevin`.

    Returns
    -------
    Draws
        As of `pabi.sampling.diffusion`. The guarantee assumes that the cluster keeps to itself what it sees.

    Raises
    ------
    InvalidInput, NotApplicable, BudgetExceeded
        As of `pabi.sampling.diffusion` and of `pabi.integrations.dask.langevin`. Nothing was released.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    docs, "I have a cluster"; docs, "Sampling".
    """
    terms = Terms(
        delta=delta,
        random_state=random_state,
        ledger=ledger,
        machines=Cluster(client, "chain", _SIGHT),
    )
    return diffusion_on(terms, diffusion, gradient, x0, domain, steps, chains, thin)


def gibbs_rejection(
    mechanism: ExponentialMechanism | IteratedExponentialMechanism,
    loss_value: LossCallable,
    domain: Any = None,
    random_state: int | np.random.Generator | None = None,
    *,
    client: Any,
    draws: int = 1,
    lipschitz: float | None = None,
    most_evaluations: int = MOST_EVALUATIONS,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
) -> ExactDraws:
    """Exact draws from the density of `mechanism`, made on a cluster's workers, with their guarantee.

    Parameters
    ----------
    mechanism, domain, random_state, draws, lipschitz, most_evaluations, delta, ledger
        As of `pabi.sampling.gibbs_rejection`.
    loss_value : callable
        As of `pabi.sampling.gibbs_rejection`, `mean_loss(X, y, loss)` for example. It travels as the
        gradient of `pabi.integrations.dask.langevin` does.
    client : distributed.Client
        The cluster. Its workers have the same pabi.

    Returns
    -------
    ExactDraws
        As of `pabi.sampling.gibbs_rejection`. The guarantee assumes that the cluster keeps to itself what it
        sees, how long each task takes among it.

    Raises
    ------
    InvalidInput, NotApplicable, BudgetExceeded
        As of `pabi.sampling.gibbs_rejection` and of `pabi.integrations.dask.langevin`. Nothing was released.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    docs, "I have a cluster"; docs, "Sampling".
    """
    terms = Terms(
        delta=delta,
        random_state=random_state,
        ledger=ledger,
        machines=Cluster(client, "draw", "records, noise, and how long every draw takes"),
    )
    return gibbs_rejection_on(
        terms, mechanism, loss_value, domain, draws, lipschitz, most_evaluations
    )


# Private searches whose trials a cluster's workers make.
#
# How many trials there are is a secret of the search, and a cluster knows it: its dashboards count tasks.
# The theorem speaks of what is released and not of where it was computed, so that a trusted cluster is
# enough.


_ALL_SIGHT = "records, hidden iterates, and all trials of the search, their number, scores and times among it"


def fit_search(
    search: PrivateSearchCV,
    X: ArrayLike,
    y: ArrayLike,
    *,
    client: Any,
    X_public: ArrayLike | None = None,
    y_public: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> PrivateSearchCV:
    """The search, fitted as `search.fit` does, its trials made on a cluster's workers.

    This process draws the number of trials, and of every trial the setting and a key of 256 bits, from which
    all of its randomness follows. Every trial is a task, a few for each thread of the cluster at a time. A
    trial whose worker is lost is made again as it was. The best is kept, and workers forget every trial once
    it was compared.

    Parameters
    ----------
    search : PrivateSearchCV
        What to search. A ledger of its own is charged once, here, before any trial.
    X, y, X_public, y_public, groups
        As of `PrivateSearchCV.fit`, in memory. They travel to the workers.
    client : distributed.Client
        The cluster. Its workers have the same pabi.

    Returns
    -------
    PrivateSearchCV
        `search`, with the attributes that `fit` sets. Its guarantee assumes that the cluster keeps to itself
        what it sees: dashboards, metrics and logs of the cluster show how many trials there were, also
        afterwards.

    Raises
    ------
    InvalidInput
        The extra `dask` is not installed. `search` is none. `client` is none, or its workers lack pabi, have
        another version, or compute in different ways. The cluster failed. Anything that `PrivateSearchCV.fit`
        refuses; what other errors of a trial say is not shown. Nothing was released.
    TargetUnreachable, BudgetExceeded
        As of `PrivateSearchCV.fit`.

    Warns
    -----
    PrivacyWarning
        The `random_state` of the search is not None.

    References
    ----------
    docs, "I have a cluster"; docs, "Tune honestly"; docs, "Theory", 17.
    """
    validate.instance("search", search, PrivateSearchCV, "a PrivateSearchCV")
    return fit_on(
        Cluster(client, "trial", _ALL_SIGHT),
        search,
        X,
        y,
        X_public=X_public,
        y_public=y_public,
        groups=groups,
    )

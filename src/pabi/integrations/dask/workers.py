"""What workers compute with: all of them alike, so that it does not matter which one makes a sum.

Two data sets that differ in one record must share the gradients of all others to the last bit (docs,
"Theory", 9). Other processors, versions or numbers of threads may round in other ways. So every result says
what it was made with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pydoc import locate
from time import monotonic
from typing import Any

import numpy as np

from pabi.describe.vector_losses import executable
from pabi.execute.linear_gradients import LossGradients
from pabi.execute.records import Records
from pabi.execute.sums import Limit
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, extra
from pabi.numbers.version import __version__

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
            limit = Limit(1.0, 1.0, anywhere)
            digest.update(gradients.clipped_sum(point, slice(0, _ROWS), limit).tobytes())
    return f"pabi {__version__}, numpy {np.__version__}, sums {digest.hexdigest()[:12]}"


def check_client(client: Any) -> None:
    """Raises InvalidInput unless it is a client of Dask that waits, whose workers have this pabi."""
    distributed = extra("distributed", "dask")
    validate.instance("client", client, distributed.Client, "a distributed.Client")
    if client.asynchronous:
        raise InvalidInput("client", "expected one that waits, got one with asynchronous=True")
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
    if client.status != "running":
        raise InvalidInput(
            "client", f"expected one that is connected, got one that is {client.status}"
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
    if not ways:
        raise InvalidInput("client", "expected workers, got none that answers")
    for way in ways:
        check_alike(ways[0], way)
    return ways[0]


def check_alike(one: str, other: str) -> None:
    """Raises InvalidInput where workers compute in different ways."""
    if one != other:
        raise InvalidInput(
            "client",
            f"expected workers that compute alike, got one with {one} and one with {other}: take one kind of "
            "processor, one number of threads for products (OMP_NUM_THREADS), and the same packages",
        )

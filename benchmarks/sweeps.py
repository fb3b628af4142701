"""Sweeps of benchmarks, line by line here, or many lines at a time on a cluster of Dask's.

    python benchmarks/accuracy.py results.json --workers 8
    python benchmarks/accuracy.py results.json --client tcp://scheduler:8786

Every line of a sweep follows from its arguments, seeds among them, so that it is the same wherever it is
computed, but for the seconds it took. Workers of a cluster need pabi and the data under the same paths; the
benchmarks' own files travel. The data are public, and nothing that a line shows is secret.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def add_options(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, help="as many lines at a time, each in a process")
    where.add_argument("--client", metavar="ADDRESS", help="of the scheduler of a Dask cluster")


def lines(
    options: argparse.Namespace, line: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
) -> Iterator[Any]:
    """What `line` makes of each of the arguments, in their order."""
    if options.workers is None and options.client is None:
        yield from (line(*those) for those in arguments)
        return
    from distributed import Client, LocalCluster

    _let_own_modules_travel()
    if options.client is not None:
        with Client(options.client) as client:
            yield from _in_order(client, line, arguments)
        return
    local = {"threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(n_workers=options.workers, **local) as cluster, Client(cluster) as client:
        yield from _in_order(client, line, arguments)


def _in_order(client: Any, line: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Any:
    futures = [client.submit(line, *those, pure=False) for those in arguments]
    for future in futures:
        yield future.result()


def _let_own_modules_travel() -> None:
    """Files beside this one are not installed anywhere."""
    import cloudpickle

    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file is not None and HERE in Path(file).resolve().parents:
            cloudpickle.register_pickle_by_value(module)

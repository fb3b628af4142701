"""The work that takes time, done: functions of plain data, whose results are kept and that run anywhere."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pabi
from pabi.describe.files import from_dict
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import InvalidInput, PrivacyWarning, require

CLASSES = 10


def proven(run: dict[str, Any], delta: float) -> dict[str, float | None]:
    """ε at `delta` and μ (None: not Gaussian) of the guarantee of a description."""
    guarantee = from_dict(run).guarantee(delta)
    return {"epsilon": guarantee.epsilon(delta), "mu": guarantee.mu}


def renyi(run: dict[str, Any], order: float) -> float:
    """The Rényi divergence of a description's guarantee, in nats."""
    return float(from_dict(run).guarantee(1e-5).rdp(order))


def tradeoff(run: dict[str, Any], delta: float, fpr: list[float]) -> list[float]:
    """The trade-off curve of a description's guarantee, chosen at `delta`."""
    values = from_dict(run).guarantee(delta).tradeoff(np.array(fpr))
    return [float(v) for v in np.asarray(values)]


def sampled_composition(probability: float, mu: float, steps: int, delta: float) -> float:
    """ε at `delta` of `steps` Gaussian mechanisms G(μ) on batches drawn without replacement."""
    from pabi.tradeoff import Gaussian, Subsampled

    curve = Subsampled(Gaussian(mu), probability).self_compose(steps)
    return curve.epsilon_bounds(delta, rtol=1e-5)[1]


def planned(**problem: Any) -> dict[str, Any]:
    """The plan of `pabi.erm.plan` for a problem: algorithm, bound on the excess risk, time of a diffusion."""
    from pabi.describe.langevin import LangevinDiffusion
    from pabi.erm import plan

    best = plan(**problem)
    time = best.run.time if isinstance(best.run, LangevinDiffusion) else None
    return {"algorithm": best.algorithm, "risk": best.risk_bound, "time": time}


def trained(
    run: dict[str, Any], mnist: str | None, feature_norm: float, intercept: float, seed: int
) -> dict[str, float]:
    """Accuracies in percent of softmax regression on MNIST, trained once as described.

    `mnist`: the file (None: fetched). Rows of pixels in [0, 1] are brought within `feature_norm`, then
    the constant `intercept` is appended. The noise comes from `seed`, so that the number can be computed
    again: the data are public, and the model is not to be published as private.
    """
    from pabi.learn import Records, SoftmaxGradients, train

    digits = read_digits(mnist)
    records = Records(digits.X, feature_norm, intercept)
    gradients = SoftmaxGradients(records, digits.y, CLASSES)
    described = from_dict(run)
    assert isinstance(described, NoisySGD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        theta = train(described, gradients, np.zeros(gradients.shape), random_state=seed).x
    # Test rows as the model saw those it was trained on.
    tested = Records(digits.X_test, feature_norm, intercept)
    return {
        "train": _accuracy(records, digits.y, theta),
        "test": _accuracy(tested, digits.y_test, theta),
    }


def _accuracy(records: Any, labels: Any, theta: Any) -> float:
    guesses = [
        records.predictor(block, theta).argmax(axis=1) == labels[block.part]
        for block in records.blocks(slice(0, len(records)))
    ]
    return 100.0 * float(np.mean(np.concatenate(guesses)))


# The MNIST digits, from a file or from OpenML.


TRAINING = 60_000


class Digits(NamedTuple):
    """`X` (60000, 784) float32 pixels in [0, 1], `y` (60000,) labels 0..9; 10 000 of each to test on."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


@lru_cache(maxsize=1)
def read_digits(file: str | None) -> Digits:
    """MNIST from an .npz with x_train, y_train, x_test, y_test (the file that Keras distributes).

    Without a file, from OpenML by scikit-learn's loader, which keeps a copy in its data folder.

    InvalidInput naming `mnist` where neither can be had.
    """
    images, labels = _from_openml() if file is None else _from_file(file)
    require(
        images.shape == (70_000, 784) and labels.shape == (70_000,),
        "mnist",
        f"expected 70 000 images of 784 pixels, got {images.shape}",
    )
    X = np.asarray(images, dtype=np.float32) / np.float32(255.0)
    y = np.asarray(labels).astype(np.intp)
    return Digits(X=X[:TRAINING], y=y[:TRAINING], X_test=X[TRAINING:], y_test=y[TRAINING:])


def _from_file(file: str) -> tuple[Any, Any]:
    try:
        with np.load(file) as arrays:
            images = [arrays[name].reshape(-1, 784) for name in ("x_train", "x_test")]
            labels = [arrays[name] for name in ("y_train", "y_test")]
    # An empty file is an EOFError, an .npy, which is no archive, a TypeError.
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as bad:
        expected = "expected an .npz with x_train, y_train, x_test, y_test"
        raise InvalidInput("mnist", f"{expected}, got {file!r}: {bad}") from None
    return np.concatenate(images), np.concatenate(labels)


def _from_openml() -> tuple[Any, Any]:
    from sklearn.datasets import fetch_openml

    parser = "pandas" if importlib.util.find_spec("pandas") else "liac-arff"
    try:
        images, labels = fetch_openml(
            "mnist_784", version=1, return_X_y=True, as_frame=False, parser=parser
        )
    except Exception as bad:  # whatever a download can fail with
        reason = f"{type(bad).__name__}: {bad}".splitlines()[0]
        raise InvalidInput(
            "mnist", f"cannot be fetched ({reason}); give the file mnist.npz with --mnist"
        ) from None
    return images, labels


# Doing the work: each piece once, in parallel, and never again while its description stays the same.


@dataclass(frozen=True)
class Part:
    """A piece of work that takes time: a function of this file by name, and its plain data."""

    function: str
    arguments: Mapping[str, Any]


def run_parts(
    parts: Iterable[Part],
    folder: Path,
    jobs: int = 1,
    fresh: bool = False,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The results of `parts` by `key`.

    `folder`: of earlier results, one file a part, which are not read with `fresh`.
    """
    missing = {key(part): part for part in parts}
    results: dict[str, Any] = {}

    def take(name: str, result: Any) -> None:
        results[name] = result
        advance()

    for name in [] if fresh else list(missing):
        if (earlier := read(folder / f"{name}.json")) is not None:
            del missing[name]
            take(name, earlier["result"])
    for name, result in _computed(missing, jobs):
        part = missing[name]
        record = {"function": part.function, "arguments": dict(part.arguments), "result": result}
        write(folder / f"{name}.json", record)
        take(name, result)
    return results


def _computed(parts: Mapping[str, Part], jobs: int) -> Iterable[tuple[str, Any]]:
    if jobs == 1 or len(parts) <= 1:
        yield from ((name, _call(part)) for name, part in parts.items())
        return
    # New processes, not forks of one that may hold locks; one thread each, as there is one a core.
    context = get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(parts)), context, _one_thread) as pool:
        futures = {pool.submit(_call, part): name for name, part in parts.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _call(part: Part) -> Any:
    return globals()[part.function](**part.arguments)


def _one_thread() -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def key(part: Part) -> str:
    """A name for the result: what is computed, from which data, by which code."""
    arguments = dict(part.arguments)
    if arguments.get("mnist") is not None:
        arguments["mnist"] = _contents(arguments["mnist"])
    return _digest(_this_pabi(), [part.function, arguments])


@cache
def _contents(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return file  # reading it will say what is wrong


def stamp(parts: Iterable[Part], look: str) -> str:
    """A name for all that is written of an artefact: its work, the code of its page, and `look`."""
    return _digest(_this_pabi(whole=True), [sorted(key(part) for part in parts), look])


def _digest(code: str, data: Any) -> str:
    text = json.dumps(data, sort_keys=True)
    return hashlib.sha256(f"{code}\n{text}".encode()).hexdigest()[:32]


COMPUTING = ("work.py",)  # files of this folder


@cache
def _this_pabi(whole: bool = False) -> str:
    """The digest of what computes: a number that other code computed is not shown as this code's.

    `whole`: with what only tabulates and draws.
    """
    root = Path(pabi.__file__).parent
    papers = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        if whole or papers not in file.parents or file.name in COMPUTING:
            digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()


def read(file: Path) -> Any:
    """What is kept in a file, None where it is not there or not whole."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write(file: Path, data: Any) -> None:
    """Keeps plain data in a file, at once: a call that is stopped leaves no half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(data), encoding="utf-8")
    draft.replace(file)

"""Calibrations, plans and guarantees of equal descriptions, computed once: for tests that fit often.

What depends on nothing but its arguments and the sources is computed once for all workers: it is a file in a
folder that is named by a digest of the sources, so that none outlives a change of them, and another run finds
it. Where `PABI_TESTS_KEPT` is empty nothing is kept.
"""

import functools
import hashlib
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import pabi
from pabi.learn import estimators, forgetting, plans, search

_CALIBRATED: dict[bytes, Any] = {}
_CALIBRATIONS = (estimators, "met"), (plans, "calibrate")
_FOLDER = os.environ.get("PABI_TESTS_KEPT", str(Path(__file__).parents[2] / ".pytest_cache/kept"))


@functools.cache
def _digest() -> str:
    """Of every line of pabi, and of what computes for it."""
    read = hashlib.sha256(sys.version.encode())
    for name in ("numpy", "scipy", "scikit-learn", "python-flint"):
        read.update(f"{name} {version(name)}\n".encode())
    source = Path(pabi.__file__).parent
    for path in sorted(source.rglob("*.py")):
        content = path.read_bytes()
        read.update(f"{path.relative_to(source)} {len(content)}\n".encode() + content)
    return read.hexdigest()


def forget_other_sources() -> None:
    """Removes what was computed by sources that are no more."""
    for folder in Path(_FOLDER).glob("*") if _FOLDER else ():
        if folder.name != _digest():
            shutil.rmtree(folder, ignore_errors=True)


def kept(key: bytes, make: Callable[[], Any]) -> Any:
    """What `make` returns; read, where a worker or an earlier run made it of the same key and sources."""
    path = Path(_FOLDER, _digest(), hashlib.sha256(key).hexdigest())
    if _FOLDER and path.exists():
        return pickle.loads(path.read_bytes())
    made = make()
    if _FOLDER:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_bytes(pickle.dumps(made))
        beside.replace(path)  # nobody reads half a file
    return made


@pytest.fixture(autouse=True)
def calibrated_once(monkeypatch) -> None:
    """Until a test ends fits share calibrations with all tests that import this.

    What is shared are frozen descriptions and guarantees, by every bit of what they were calibrated from. Not
    for tests that plant a mistake in the accounting.
    """

    def remembering(calibrate: Callable[..., Any]) -> Callable[..., Any]:
        def remembered(*given: Any) -> Any:
            try:
                key = pickle.dumps((calibrate.__name__, given))
            # Functions of tests have no name.
            except (AttributeError, TypeError, pickle.PicklingError):
                return calibrate(*given)
            if key not in _CALIBRATED:
                _CALIBRATED[key] = kept(key, lambda: calibrate(*given))
            return _CALIBRATED[key]

        return remembered

    for module, name in _CALIBRATIONS:
        monkeypatch.setattr(module, name, remembering(getattr(module, name)))


def computed_once(monkeypatch) -> None:
    """Until the test ends."""
    for module, name in _CALIBRATIONS:
        monkeypatch.setattr(module, name, _once(getattr(module, name)))
    for kind in (pabi.NoisySGD, pabi.NoisySecondMoments):
        monkeypatch.setattr(kind, "guarantee", _once(kind.guarantee))
    plan, planned = forgetting.planned_request, search.planned
    monkeypatch.setattr(forgetting, "planned_request", _once(plan, lambda held: held.requests))
    monkeypatch.setattr(search, "planned", _once(planned, lambda target: target, others=False))


def _once(
    compute: Callable[..., Any], key_of: Callable[[Any], Any] = repr, *, others: bool = True
) -> Callable[..., Any]:
    results: dict[str, Any] = {}

    def remembered(first: Any, *rest: Any, **keywords: Any) -> Any:
        key = repr((key_of(first), (rest, keywords) if others else ()))
        if key not in results:
            results[key] = compute(first, *rest, **keywords)
        return results[key]

    return remembered

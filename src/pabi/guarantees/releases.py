"""What a file notes of a release: which pabi made it, when, and the hash of the released parameters.

Nobody checks a note. The hash is there so that a reader can compare it with the model at hand; it is computed
from what was released, so it reveals nothing more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.version import __version__

RELEASES = "releases"  # the key under notes
SHA256 = "parameters_sha256"
MODELS = "models_sha256"  # the key of the hashes of whole models


def today() -> str:
    """The date in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


def stamp() -> dict[str, str]:
    """The version of this pabi, and the date."""
    return {"pabi": __version__, "date": today()}


def digest(parameters: Mapping[str, Any]) -> str:
    """SHA-256 of named values, in hexadecimal digits.

    Of every array of doubles, in the order of the names, the line `NAME <f8 SHAPE` with the numbers of the
    shape separated by commas, ended by a line feed, in UTF-8; then its entries as little-endian doubles in C
    order. Of what is no such array, labels and levels, the line `NAME json BYTES`; then so many bytes of JSON
    in ASCII, as Python's `json.dumps` writes it.
    """
    total = hashlib.sha256()
    for name in sorted(parameters):
        kind, content = _content(parameters[name])
        total.update(f"{name} {kind}\n".encode() + content)
    return total.hexdigest()


def _content(value: Any) -> tuple[str, bytes]:
    """(what follows the name, the bytes)."""
    array = _doubles(value)
    if array is not None:
        shape = ",".join(map(str, array.shape))
        return f"<f8 {shape}", array.tobytes(order="C")
    listed = value.tolist() if isinstance(value, np.ndarray) else value
    content = json.dumps(listed, default=_plain).encode("ascii")
    return f"json {len(content)}", content


def _doubles(value: Any) -> NDArray[np.float64] | None:
    """An array of doubles, None of labels and levels: other arrays, and lists of more than numbers."""
    try:
        array = np.asarray(value)
    except ValueError:  # a list of levels for each column, of lengths of their own
        return None
    kinds = "f" if isinstance(value, np.ndarray) else "iuf"
    return array.astype("<f8") if array.dtype.kind in kinds else None


def _plain(value: Any) -> Any:
    """What JSON has no word for: numpy's scalars as Python's, anything else as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def released_notes(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What is noted of the release of these parameters.

    It takes the place of what was noted of the releases that they are made of, which are not published.
    """
    own = {**stamp(), "parameters": sorted(parameters), SHA256: digest(parameters)}
    return {RELEASES: [own]}


def releases_in(notes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The releases that notes speak of; what does not have their form is left out."""
    listed = notes.get(RELEASES, [])
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def notes_of_all(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The notes of several releases together: every release and every model of every part; what else was
    noted was said of one of them."""
    every = list(parts)
    listed = [one for notes in every for one in releases_in(notes)]
    models = [one for notes in every for one in models_in(notes)]
    return ({RELEASES: listed} if listed else {}) | ({MODELS: models} if models else {})


def models_in(notes: Mapping[str, Any]) -> list[str]:
    """The hashes of whole models that notes have; what does not have their form is left out."""
    listed = notes.get(MODELS, [])
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []

"""Notes the hash of what was released in its guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from numpy.typing import ArrayLike

from pabi.guarantees.guarantee import Guarantee
from pabi.guarantees.releases import RELEASES, entry


def noting(guarantee: Guarantee, parameters: Mapping[str, ArrayLike]) -> Guarantee:
    """The guarantee of one release, with version, date and the hash of these parameters in its notes.

    What was noted of releases that it is made of is not kept: their parameters are not what is published.
    """
    return replace(guarantee, notes={**guarantee.notes, RELEASES: [entry(parameters)]})

"""Shifted interpolated processes of random batches, on both sides and on one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.draw.figures import Figure, Panel
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, processes

START = 6  # τ


def _assemble(found: Mapping[str, Any]) -> Figure:
    panels = []
    for title, paths in (
        ("Theorem 4.9: both runs are followed", processes.two_sided()),
        (f"Theorem 4.10: from X' at τ = {START} to X", processes.one_sided(START)),
    ):
        drawn = processes.lines(paths) + processes.untaken(paths)
        panels.append(Panel(title, "step k", "", drawn))
    remark = (
        "Simulated with one noise and one draw of the batches for all; dotted: the step that was not taken, "
        "with the record where it was without, or the reverse."
    )
    return Figure(tuple(panels), remark, size=(12.0, 5.2))


ARTEFACT = Artefact("Shifted processes of random batches", f"{SOURCE}, Figure 5", _assemble)

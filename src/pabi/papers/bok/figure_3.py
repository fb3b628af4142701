"""The shifted interpolated process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.draw.figures import Figure, Panel
from pabi.papers.artefact import Artefact
from pabi.papers.bok import SOURCE, processes

START = 6  # τ


def _assemble(found: Mapping[str, Any]) -> Figure:
    drawn = processes.lines(processes.full_batches(START))
    panel = Panel(f"from X' at τ = {START} to X at t = {processes.STEPS}", "step k", "", drawn)
    remark = "Simulated with one noise for all three, c = 0.9, and the optimal payments from τ on."
    return Figure((panel,), remark, columns=1, size=(8.0, 4.8))


ARTEFACT = Artefact("The shifted interpolated process", f"{SOURCE}, Figure 3", _assemble)

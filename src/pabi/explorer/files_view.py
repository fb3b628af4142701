"""Files of a run: in, as what stands in the controls; out, as a run file, a guarantee or a report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pabi.describe.accounted import USUAL_DELTA
from pabi.describe.files import description_in, run_file, tables_in, to_dict
from pabi.explorer import check_view
from pabi.explorer.controls import state_in, text_in
from pabi.explorer.run_view import Event
from pabi.explorer.state import read, state_of_table
from pabi.numbers.showing import exact, shown
from pabi.reports.guarantee import report_on
from pabi.verification import verify


def imported(request: dict[str, Any]) -> Iterator[Event]:
    """{"text": a run file} as {"state": what the controls hold}."""
    table = tables_in(text_in(request), "run file")
    description_in(table)  # or its first mistake
    yield "state", {"state": state_of_table(table, USUAL_DELTA)}


def exported(request: dict[str, Any]) -> Iterator[Event]:
    """{"state"} as a run file that `pabi account` reads, and as a guarantee with its certificate."""
    picked = read(state_in(request))
    guarantee = picked.description.guarantee(picked.delta)
    comments = [
        f"epsilon {shown(guarantee.epsilon(picked.delta))} at delta {exact(picked.delta)}, "
        f"{guarantee.method}",
        f"adjacency {guarantee.adjacency}",
        f"what it costs: pabi account run.toml --delta {exact(picked.delta)}",
        "delta is no part of a run; to train: pabi.description.from_dict reads this file, and docs, Train, "
        "says which trainers take what it returns",
    ]
    yield "file", {"name": "run.toml", "text": run_file(to_dict(picked.description), comments)}
    table = guarantee.to_dict(certificate=True)
    yield "file", {"name": "guarantee.json", "text": json.dumps(table)}


def reported(request: dict[str, Any]) -> Iterator[Event]:
    """{"state"}, or {"text": a guarantee}, as a report: a page that can be kept, printed and signed."""
    if "text" in request:
        text = check_view.reported(text_in(request))
    else:
        picked = read(state_in(request))
        guarantee = picked.description.guarantee(picked.delta)
        text = report_on(guarantee, "html", picked.delta, verify(guarantee))
    yield "file", {"name": "report.html", "text": text}

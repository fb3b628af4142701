"""Whether a file's guarantee is to be trusted: the verdict, and what people have to stand behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pabi.describe.files import from_dict
from pabi.explorer.controls import text_in
from pabi.explorer.run_view import Event, assumptions, attack_texts, epsilon_curves, tradeoff_curves
from pabi.explorer.state import rows_of
from pabi.guarantees.guarantee import Guarantee
from pabi.guarantees.stated import whom
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import exact, shown
from pabi.reports.guarantee import report_on, stated_in
from pabi.verification import Verdict, verify

_SCOPES = {
    "run": "everything was derived again from the description of the training",
    "iteration": "only the arithmetic was checked; the steps were taken as stated",
    None: "",
}
_USUAL_DELTA = 1e-5


def events(request: dict[str, Any]) -> Iterator[Event]:
    """The events of a file that was dropped. `request`: {"text": that of the file}."""
    guarantee, verdict = checked(text_in(request))
    yield "verdict", _verdict(verdict, guarantee)
    if guarantee is None:
        return
    yield "training", {"rows": _trained(guarantee, _delta(guarantee, verdict))}
    yield "assumptions", {"rows": assumptions(guarantee)}
    yield "attacks", {"texts": attack_texts(guarantee)}
    yield from tradeoff_curves(guarantee)
    yield from epsilon_curves(guarantee)


def checked(text: str) -> tuple[Guarantee | None, Verdict]:
    """The guarantee in a file, None where its proof is refused; and the verdict. Raises InvalidInput."""
    if text.lstrip()[:1] != "{":
        raise InvalidInput(
            "file", "expected a guarantee or certificate (JSON); run files are opened under Run"
        )
    try:
        verdict = verify(text)
    except InvalidInput as bad:
        reason = str(bad) if '"format"' in text else "it has no format"
        raise InvalidInput(
            "file", f"expected a guarantee or certificate of pabi: {reason}"
        ) from None
    try:
        return stated_in(text, verdict), verdict
    except InvalidInput:  # it cannot even be taken apart, as the verdict says
        return None, verdict


def reported(text: str) -> str:
    """The report on the guarantee in a file, a page."""
    guarantee, verdict = checked(text)
    if guarantee is None:
        raise InvalidInput(
            "file", f"its proof is refused, so that there is no report: {verdict.reason}"
        )
    return report_on(guarantee, "html", _delta(guarantee, verdict), verdict)


def _delta(guarantee: Guarantee, verdict: Verdict) -> float:
    stated = guarantee.tuned_at if verdict.reading is None else verdict.reading[1]
    return stated if stated is not None and 0.0 < stated < 1.0 else _USUAL_DELTA


def _trained(guarantee: Guarantee, delta: float) -> list[tuple[str, str]]:
    """What the file says was done, from which everything is proven; nothing where it describes no run."""
    proof = guarantee.to_dict(certificate=True).get("certificate") or {}
    return rows_of(from_dict(proof["run"]), delta) if "run" in proof else []


def _verdict(verdict: Verdict, guarantee: Guarantee | None) -> dict[str, Any]:
    base = {"ok": verdict.ok, "reason": verdict.reason, "scope": _SCOPES[verdict.scope]}
    if guarantee is None:
        return base
    delta = _delta(guarantee, verdict)
    return base | {
        "epsilon": shown(guarantee.epsilon(delta)),
        "delta": exact(delta),
        "mu": None if guarantee.mu is None else shown(guarantee.mu),
        "protects": whom(guarantee.adjacency, guarantee.unit),
        "method": guarantee.method,
        "source": guarantee.source,
    }

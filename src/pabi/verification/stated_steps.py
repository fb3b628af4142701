"""Whether the steps that a certificate states are at least what the description implies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flint import arb

from pabi.verification.arithmetic import Repeated, Stretch, exact
from pabi.verification.limits import timed
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.refusal import Refused
from pabi.verification.uses import Uses


def check_groups(run: OrderedRun, uses: Uses, skipped: int, groups: Sequence[Repeated]) -> None:
    """Refuse unless the groups, from step `skipped` on, are at least what the description implies."""
    k = skipped
    for times, stretches in timed(groups):
        length = sum(x.n for x in stretches)
        if times > 1 and (
            length % run.period
            or (uses.count and k < uses.first)
            or k + times * length > run.data
            or any(k <= x < k + times * length for x in uses.then)
        ):
            raise Refused(f"step {k + 1}: a repetition that the description does not have")
        for stretch in stretches:
            _check_stretch(run, uses, k, stretch)
            k += stretch.n
        k += (times - 1) * length
    if k != run.total:
        raise Refused(f"step {k}: the certificate ends there, the run at {run.total}")


def _check_stretch(run: OrderedRun, uses: Uses, k: int, stretch: Stretch) -> None:
    for step in run.kinds(k, k + stretch.n):
        least = run.slope(step)
        if not exact(stretch.c) >= least:
            raise Refused(_differs(step, "slope", stretch.c, "at least", least))
    if uses.among(k, k + stretch.n) and not exact(stretch.s) >= run.s(k):
        raise Refused(_differs(k, "sensitivity", stretch.s, "at least", run.s(k)))
    if not exact(stretch.sigma) <= run.sigma(k):
        raise Refused(_differs(k, "noise", stretch.sigma, "at most", run.sigma(k)))


def check_arrays(run: OrderedRun, c: Any, s: Any, sigma: Any) -> None:
    """Refuse unless written-out steps are at least what the description implies."""
    if not len(c) == len(s) == len(sigma) == run.total:
        raise Refused(f"steps: expected {run.total} of each column")
    for k, least in timed(enumerate(run.slopes)):
        if not exact(c[k]) >= least:
            raise Refused(_differs(k, "slope", c[k], "at least", least))
        if k < run.data and not exact(s[k]) >= run.s(k):
            raise Refused(_differs(k, "sensitivity", s[k], "at least", run.s(k)))
        if not exact(sigma[k]) <= run.sigma(k):
            raise Refused(_differs(k, "noise", sigma[k], "at most", run.sigma(k)))


def _differs(k: int, what: str, got: float, bound: str, value: Any) -> str:
    implied = float(arb(value).mid())
    return f"step {k + 1}: {what}: the description implies {bound} {implied!r}, got {float(got)!r}"

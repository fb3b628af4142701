"""Whether the steps that a certificate states are at least what the description implies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flint import arb

from pabi.verification.arithmetic import EqualSteps, Repeated, exact
from pabi.verification.limits import timed
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.refusal import Refused
from pabi.verification.uses import UseSteps


def check_groups(run: OrderedRun, uses: UseSteps, skipped: int, groups: Sequence[Repeated]) -> None:
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


def _check_stretch(run: OrderedRun, uses: UseSteps, k: int, stretch: EqualSteps) -> None:
    for step in run.kinds(k, k + stretch.n):
        _check_at_least(step, "slope", stretch.c, run.slope(step))
    if uses.among(k, k + stretch.n):
        _check_at_least(k, "sensitivity", stretch.s, run.s(k))
    _check_noise(k, stretch.sigma, run.sigma(k))


def check_arrays(run: OrderedRun, c: Any, s: Any, sigma: Any) -> None:
    """Refuse unless written-out steps are at least what the description implies."""
    if not len(c) == len(s) == len(sigma) == run.total:
        raise Refused(f"steps: expected {run.total} of each column")
    for k, least in timed(enumerate(run.slopes)):
        _check_at_least(k, "slope", c[k], least)
        if k < run.data:
            _check_at_least(k, "sensitivity", s[k], run.s(k))
        _check_noise(k, sigma[k], run.sigma(k))


def _check_at_least(k: int, what: str, stated: float, least: Any) -> None:
    if not exact(stated) >= least:
        raise _differs(k, what, stated, "at least", least)


def _check_noise(k: int, stated: float, most: Any) -> None:
    if not exact(stated) <= most:
        raise _differs(k, "noise", stated, "at most", most)


def _differs(k: int, what: str, stated: float, bound: str, value: Any) -> Refused:
    implied = float(arb(value).mid())
    return Refused(
        f"step {k + 1}: {what}: the description implies {bound} {implied!r}, got {float(stated)!r}"
    )

"""Which published bounds cover forgetting, and what they say of it."""

from __future__ import annotations

import math
from typing import Any

from pabi.describe.unlearning import Unlearning
from pabi.literature import chien_wang_chen_li
from pabi.literature.published import Hypothesis, Terms, covers, needs, require
from pabi.numbers.errors import NotApplicable


def _strong_convexity(unlearning: Unlearning) -> float:
    """m of one record's loss with its regulariser."""
    loss, run = unlearning.run.loss, unlearning.run
    curvature = loss.effective_curvature(run.clip_norm, run.clipping)
    if curvature is None:
        raise NotApplicable("needs losses of known curvature")
    lo, hi = curvature
    require(run.step_size * (lo + hi + 2.0 * loss.l2) <= 2.0, "steps of size 2/(m + L) at most")
    return float(lo + loss.l2)


def _noise(unlearning: Unlearning) -> float:
    """σ, where a step has noise √(2η)·σ on the iterate."""
    run = unlearning.run
    return float(run.gradient_noise_std * run.step_size / math.sqrt(2.0 * run.step_size))


def _epochs(unlearning: Unlearning) -> int:
    [(steps, _)] = unlearning.requests
    return steps // unlearning.run.steps_per_epoch


def _is_plain(unlearning: Unlearning) -> bool:
    run = unlearning.whole
    return run.rule.plain and run.constant and run.release == "last"


_HYPOTHESES: tuple[Hypothesis, ...] = (
    needs("one request for one record", lambda u: len(u.requests) == u.records == 1),
    needs("no model handed out", lambda u: not u.published),
    needs("a record replaced by another", lambda u: u.run.adjacency == "replace_one"),
    needs("plain noisy SGD with constant step size and noise", _is_plain),
    needs("no cool-down", lambda u: u.run.cooldown_steps == 0),
    needs("cyclic or full batches", lambda u: u.run.batches.kind in ("cyclic", "full_batch")),
    needs("a batch size that divides n", lambda u: u.n % u.run.batch_size == 0),
    needs(
        "whole epochs after the request",
        lambda u: u.requests[0][0] % u.run.steps_per_epoch == 0,
    ),
)

_TERMS: Terms = {
    "step_size": lambda u: u.run.step_size,
    "gradient_norm": lambda u: u.run.sensitivity / 2.0,
    "strong_convexity": _strong_convexity,
    "noise": _noise,
    "n": lambda u: u.n,
    "b": lambda u: u.run.batch_size,
    "epochs": _epochs,
    "order": lambda u: 2.0,  # linear in the order
}

CANDIDATES: tuple[Any, ...] = (covers(chien_wang_chen_li.unlearning, _TERMS, *_HYPOTHESES),)

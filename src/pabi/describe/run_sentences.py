"""The sentences about a run that a guarantee of it rests on."""

from __future__ import annotations

from typing import assert_never

from pabi.describe.assumptions import HIDDEN, SHOWN, adjacent
from pabi.describe.losses import CONVEX
from pabi.describe.neighbours import changed
from pabi.describe.orders import FixedSizes, RandomSizes
from pabi.describe.stated_run import StatedRun


def run_sentences(
    run: StatedRun, hidden: bool = True, position: int | None = None
) -> tuple[str, ...]:
    """What a guarantee of `run` rests on.

    `hidden`: whether it needs the path to stay hidden. `position`: the only batch it speaks of.
    """
    loss = run.loss
    sentences = [*adjacent(run.adjacency, run.unit), HIDDEN if hidden else SHOWN]
    if position is not None:
        sentences.append(
            f"the {run.unit} is one of batch {position} (0-based); no other {run.unit} is spoken of"
        )
    sentences += [run.batches.sentence, *_about_sizes(run)]
    sentences += [
        f"every batch sum of gradients, the short last one included, is divided by {run.batch_size}",
        "noise is Gaussian, fresh at every step, independent of the data and never revealed",
        "the starting point, the schedule and all settings do not depend on the data",
    ]
    if run.gradient_sensitivity is not None:
        sentences.append(
            f"one {run.unit} moves a batch's gradient sum by at most {run.gradient_sensitivity!r} "
            "(gradient_sensitivity)"
        )
    elif run.clipping in CONVEX:
        by = {"residual": "by its residual", "ball": "by the norm of its residuals"}[run.clipping]
        sentences.append(
            f"each record's loss is clipped convexly, {by}, so that its gradient has norm at most "
            f"{run.clip_norm!r}"
        )
    elif loss.clips(run.clip_norm, run.clipping):
        how = {"norm": "to norm {c!r}", "coordinates": "coordinate by coordinate to {c!r}/√d"}
        sentences.append(
            f"each record's gradient is clipped {how[run.clipping].format(c=run.clip_norm)}"
        )
    bound = loss.gradient_bound
    if run.gradient_sensitivity is None and bound == run.record_gradient_bound:
        sentences.append(f"each record's gradient has norm at most {loss.gradient_bound!r}")
    if hidden:
        sentences.extend(_about_moduli(run))
    else:
        sentences.append("each step depends on the data only through the noisy gradients so far")
    return tuple(sentences)


def _about_sizes(run: StatedRun) -> list[str]:
    """What happens with batches that are too large."""
    sizes = run.order.sizes
    match sizes:
        case FixedSizes() | RandomSizes(cap=None):
            return []
        case RandomSizes(cap=cap):
            sentence = f"a batch of more than {cap} {run.unit}s is replaced by an empty one, never truncated"
        case _:
            assert_never(sizes)
    if changed(run.adjacency) == 1:
        sentence += (
            f"; a {run.unit} whose gradient is taken as zero is drawn and counted like any other"
        )
    return [sentence]


def _about_moduli(run: StatedRun) -> list[str]:
    loss, sentences = run.loss, list(run.loss.sentences)
    if loss.l2:
        sentences.append(
            f"the regulariser {loss.l2!r}·‖x‖²/2 is applied exactly, outside clipping and batch"
        )
    if run.prox is not None:
        sentences.append(
            f"the proximal map {run.prox!r} is nonexpansive and does not depend on the data"
        )
    proven = getattr(run.prox, "diameter", None)
    if proven is not None:
        sentences.append(f"the range of {run.prox!r} has diameter at most {proven!r}")
    if run.diameter is not None and (proven is None or run.diameter < proven):
        sentences.append(f"any two iterates are at most {run.diameter!r} apart (diameter)")
    if run.cooldown_steps:
        sentences.append(f"the last {run.cooldown_steps} steps use no data")
    return sentences

"""The sentences a user must be able to stand behind, derived from a description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from pabi.describe.neighbours import Adjacency, changed
from pabi.describe.orders import FixedSizes, RandomSizes

if TYPE_CHECKING:
    from pabi.describe.iteration import NoisyIteration
    from pabi.describe.langevin import LangevinChain, LangevinDiffusion
    from pabi.describe.losses import Loss
    from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
    from pabi.describe.runs import NoisySGD

_ADJACENCY: dict[Adjacency, str] = {
    "replace_one": "adjacent data sets differ in one record, replaced by any other (replace_one)",
    "zero_out": "adjacent data sets differ in one record, whose contribution becomes zero while "
    "n and all divisors stay (zero_out)",
}
_HIDDEN = "only the last iterate is released; every earlier iterate stays hidden"
_SHOWN = "every iterate may be released"


def noisy_sgd(run: NoisySGD, hidden: bool = True, position: int | None = None) -> tuple[str, ...]:
    """What a guarantee of `run` rests on.

    `hidden`: whether it needs the path to stay hidden. `position`: the only batch it speaks of.
    """
    loss, said = run.loss, [_ADJACENCY[run.adjacency]]
    said.append(_HIDDEN if hidden else _SHOWN)
    if position is not None:
        said.append(
            f"the record is one of batch {position} (0-based); no other record is spoken of"
        )
    said.append(run.batches.sentence)
    said.extend(_about_sizes(run))
    said.append(
        f"every batch sum of gradients, the short last one included, is divided by {run.batch_size}"
    )
    said.append(
        "noise is Gaussian, fresh at every step, independent of the data and never revealed"
    )
    said.append("the starting point, the schedule and all settings do not depend on the data")
    if run.gradient_sensitivity is not None:
        said.append(
            f"one record moves a batch's gradient sum by at most {run.gradient_sensitivity!r} "
            "(gradient_sensitivity)"
        )
    elif loss.clips(run.clip_norm, run.clipping):
        how = {"norm": "to norm {c!r}", "coordinates": "coordinate by coordinate to {c!r}/√d"}
        said.append(
            f"each record's gradient is clipped {how[run.clipping].format(c=run.clip_norm)}"
        )
    bound = loss.gradient_bound
    if run.gradient_sensitivity is None and bound == run.record_gradient_bound:
        said.append(f"each record's gradient has norm at most {loss.gradient_bound!r}")
    if hidden:
        said.extend(_about_moduli(run))
    else:
        said.append("each step depends on the data only through the noisy gradients so far")
    return tuple(said)


def _about_sizes(run: NoisySGD) -> list[str]:
    """What happens with batches that are too large."""
    sizes = run.order.sizes
    match sizes:
        case FixedSizes() | RandomSizes(cap=None):
            return []
        case RandomSizes(cap=cap):
            said = (
                f"a batch of more than {cap} records is replaced by an empty one, never truncated"
            )
        case _:
            assert_never(sizes)
    if changed(run.adjacency) == 1:
        said += "; a record whose gradient is taken as zero is drawn and counted like any other"
    return [said]


def _about_moduli(run: NoisySGD) -> list[str]:
    loss, said = run.loss, about_loss(run.loss)
    if loss.l2:
        said.append(
            f"the regulariser {loss.l2!r}·‖x‖²/2 is applied exactly, outside clipping and batch"
        )
    if run.prox is not None:
        said.append(
            f"the proximal map {run.prox!r} is nonexpansive and does not depend on the data"
        )
    proven = getattr(run.prox, "diameter", None)
    if proven is not None:
        said.append(f"the range of {run.prox!r} has diameter at most {proven!r}")
    if run.diameter is not None and (proven is None or run.diameter < proven):
        said.append(f"any two iterates are at most {run.diameter!r} apart (diameter)")
    if run.cooldown_steps:
        said.append(f"the last {run.cooldown_steps} steps use no data")
    return said


def about_loss(loss: Loss) -> list[str]:
    """What is known about one record's loss."""
    return list(loss.sentences)


def noisy_iteration(iteration: NoisyIteration, hidden: bool = True) -> tuple[str, ...]:
    """What a guarantee of a bare iteration rests on; `hidden`: as in `noisy_sgd`."""
    return iteration_sentences(iteration.adjacency, iteration.diameter, iteration.start, hidden)


def iteration_sentences(
    adjacency: Adjacency, diameter: float | None, start: float, hidden: bool
) -> tuple[str, ...]:
    """The sentences of `noisy_iteration`, from the fields that matter."""
    said = [
        _ADJACENCY[adjacency],
        _HIDDEN if hidden else _SHOWN,
        "moduli of continuity (slopes), step sensitivities and noises are as stated, for the worst record",
        "noise is Gaussian, fresh at every step, independent of the data and never revealed",
    ]
    if hidden and diameter is not None:
        said.append(f"every map ends in a nonexpansive map onto a set of diameter {diameter!r}")
    if hidden and start:
        said.append(f"the starting points are at most {start!r} apart")
    return tuple(said)


def langevin_chain(chain: LangevinChain, of_one: Sequence[str]) -> tuple[str, ...]:
    """What a guarantee of `chain` rests on, where that of one chain as noisy SGD rests on `of_one`."""
    said = list(of_one)
    if chain.gradient_gap is not None:
        said = [about_gap(chain) if "(gradient_sensitivity)" in s else s for s in said]
    if chain.chains > 1:
        said.append(f"the {chain.chains} chains use independent noise, and no others are released")
    return tuple(said)


def about_gap(description: LangevinChain | LangevinDiffusion | ExponentialMechanism) -> str:
    if description.gradient_gap is not None:
        return (
            "the gradients of two adjacent data sets' mean losses differ by at most "
            f"{description.gradient_gap!r} (gradient_gap)"
        )
    return f"each record's gradient has norm at most {description.loss.gradient_bound!r}"


FOLLOWED_EXACTLY = (
    "the diffusion is followed exactly; a chain of finite steps is another description"
)


def langevin_diffusion(diffusion: LangevinDiffusion, hidden: bool = True) -> tuple[str, ...]:
    """What a guarantee of `diffusion` rests on; `hidden`: whether it needs the path to stay hidden."""
    last = "only the point at the end is released; the path before it stays hidden"
    said = [_ADJACENCY[diffusion.adjacency], last if hidden else "the whole path may be released"]
    said.append(FOLLOWED_EXACTLY)
    if callable(diffusion.inverse_temperature):
        said.append(
            f"the inverse temperature is monotone on each of {diffusion.cells[0].size} equal parts of the "
            "time"
        )
    said.append("the starting point, the temperature and the time do not depend on the data")
    said.append(about_gap(diffusion))
    if hidden:
        said.extend(_about_mean_loss(diffusion.loss))
    if diffusion.diameter is not None:
        said.append(
            f"the diffusion is reflected at the boundary of a convex set of diameter {diffusion.diameter!r}"
        )
    return tuple(said)


def _about_mean_loss(loss: Loss) -> list[str]:
    """What is known about one record's loss, and the regulariser of their mean."""
    said = about_loss(loss)
    if loss.l2:
        said.append(f"the mean loss includes the regulariser {loss.l2!r}·‖x‖²/2")
    return said


_EXACT = "draws are exact: at total-variation error ξ of a draw, (1 + e^ε)·ξ is added to δ"


def exponential_mechanism(mechanism: ExponentialMechanism, gibbs: bool = True) -> tuple[str, ...]:
    """What a guarantee of `mechanism` rests on; `gibbs`: whether it uses the loss's curvature."""
    said = [
        _ADJACENCY[mechanism.adjacency],
        _EXACT,
        "nothing but the draw is released: no normalising constant, cost or number of attempts",
        f"the draw is from a convex set of diameter at most {mechanism.diameter!r} that does not depend on "
        "the data",
        about_gap(mechanism),
    ]
    if gibbs:
        said.extend(_about_mean_loss(mechanism.loss))
    return tuple(said)


def iterated_mechanism(mechanism: IteratedExponentialMechanism) -> tuple[str, ...]:
    """What a guarantee of `mechanism` rests on; its radii use the loss's curvature in any case."""
    said = [
        _ADJACENCY[mechanism.adjacency],
        _EXACT,
        "nothing but the rounds' draws is released: no normalising constant, cost or number of attempts",
        f"the first set is convex, of diameter at most {mechanism.diameter!r}, and does not depend on the "
        "data; every later one is its part within the stated radius of the draw before",
        f"each record's gradient has norm at most {mechanism.loss.gradient_bound!r}",
        *_about_mean_loss(mechanism.loss),
    ]
    if mechanism.split is not None:
        said.append(
            f"the first {mechanism.split} records are used by the rounds but the last, the others by the "
            "last; which is which does not depend on the data"
        )
    return tuple(said)

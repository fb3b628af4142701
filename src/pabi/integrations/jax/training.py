"""Executes a described run with gradients by JAX, many steps in one compiled loop.

Noise and batches come from the host. They are drawn there from the generator of `pabi.learn.train`, ChaCha
with 256 bits of key from the operating system, and are arguments of the loop. JAX's own generator, Threefry
2×32, has keys of 64 bits, and its normal numbers come from single random words, so that large ones are
missing: neither is what a guarantee assumes of noise.

Everything is in double precision, whatever JAX is set to. On the same noise the iterate is that of
`pabi.learn.train`, but for the rounding of sums, for which clipping leaves the same room.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pabi.account.calibration import met
from pabi.account.targets import Target
from pabi.budget.ledger import Ledger
from pabi.describe.batches import BallsInBins, Batches, FixedSize, FixedSizes, Poisson
from pabi.describe.runs import COUNT, OF_THE_RUN, NoisySGD
from pabi.describe.updates import SGD, Adam, Momentum, Other, Update
from pabi.describe.vector_losses import LINEAR_LOSSES
from pabi.execute.batches import batch_rows
from pabi.execute.blocks import refuse_emulation
from pabi.execute.checkpoint import Randomness
from pabi.execute.computed_steps import paid_for, rests_on, settled
from pabi.execute.hiding import (
    Terms,
    checked,
    hides,
    read_only,
    refuse_unenforceable,
    starting_point,
    unshown,
    walk_of,
)
from pabi.execute.noise import StepNoise
from pabi.execute.records import numbers_of
from pabi.execute.sums import Limit, least_move, noise_factor
from pabi.integrations.jax.gradients import gradients_of
from pabi.integrations.jax.programs import (
    mixes,
    refuse_callbacks,
    refuse_networks,
    refuse_short,
)
from pabi.learn.pipelines import note_of_whole
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, extra, must_be, require
from pabi.numbers.rounding import Array, up
from pabi.tradeoff.certificate import released_notes
from pabi.tradeoff.guarantee import Guarantee

# The parts of a step that JAX traces beside clipped sums: noisy directions, updates.


class Carried(NamedTuple):
    """What a step hands on: the iterate, and the state of the update."""

    x: Any
    state: Any


def with_noise(jax: Any, sums: Any, column: Any) -> Any:
    """The sums, rounded to the grid of the noise that is added."""
    numpy, grid = jax.numpy, column["grid"]
    # Larger ones are multiples already.
    near = numpy.abs(sums) < grid * 2.0**53
    noisy = numpy.where(near, numpy.rint(sums / grid) * grid, sums) + column["noise"]
    return numpy.where(noisy == 0.0, 0.0, noisy)  # without a sign, which would tell that of the sum


def moved(jax: Any, rule: Update, optimizer: Any) -> Callable[[Carried, Any, Any], Carried]:
    """(what is carried, direction, the step's numbers) ↦ what the step hands on."""
    if optimizer is not None:
        return lambda carried, direction, column: _by_optax(optimizer, carried, direction)
    along = _along(jax, rule)

    def step(carried: Carried, direction: Any, column: Any) -> Carried:
        way, state = along(direction, carried.state, column["k"])
        return Carried(carried.x - column["step_size"] * way, state)

    return step


def _by_optax(optimizer: Any, carried: Carried, direction: Any) -> Carried:
    updates, state = optimizer.update(direction, carried.state, carried.x)
    return Carried(carried.x + updates, state)


def _along(jax: Any, rule: Update) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
    """(direction, state, k) ↦ (what the step subtracts over η, the state after it)."""
    numpy = jax.numpy
    match rule:
        case SGD():
            return lambda direction, state, k: (direction, state)
        case Momentum(momentum=momentum, nesterov=nesterov):

            def momentum_step(direction: Any, state: Any, k: Any) -> tuple[Any, Any]:
                velocity = momentum * state[0] + direction
                return direction + momentum * velocity if nesterov else velocity, (velocity,)

            return momentum_step
        case Adam(betas=(first, second), eps=eps):

            def adam_step(direction: Any, state: Any, k: Any) -> tuple[Any, Any]:
                mean = first * state[0] + (1.0 - first) * direction
                square = second * state[1] + (1.0 - second) * numpy.square(direction)
                scale = numpy.sqrt(square / (1.0 - second ** (k + 1.0))) + eps
                return mean / (1.0 - first ** (k + 1.0)) / scale, (mean, square)

            return adam_step
        case _:
            raise InvalidInput("update", f"expected one that is executed here, got {rule!r}")


_DOUBLES = ("cpu", "gpu", "cuda", "rocm")  # what JAX calls platforms that compute in them
_HELD = 1 << 22  # numbers of noise and batches on the device at once (32 MB)
_NEVER = 2.0**-100  # the probability of a batch for which the loop is compiled anew
OF_ITS_OWN = (
    "per_example_loss is computed from the parameters and one record alone, and shows neither"
)
PLACES = "a record's gradient is the same to the last bit wherever it stands in a batch"


@dataclass(frozen=True, eq=False)
class JaxTrained:
    """The model that a run trained by JAX releases, with its guarantee.

    Attributes
    ----------
    params : pytree of float64 arrays
        The last iterate, of the structure and shapes of the parameters that training began with, read-only.
    guarantee : Guarantee
        What its release costs; its notes have the version, the date, `model_hash(params)`, and the hash of
        all parameters as one vector `x`.
    run : NoisySGD
        The description that was both accounted and executed.

    References
    ----------
    docs, "I use optax".
    """

    params: Any
    guarantee: Guarantee
    run: NoisySGD


_OTHER_OPTIONS = {
    **OF_THE_RUN,
    **dict.fromkeys(
        ("key", "rng", "seed"),
        "noise and batches have a fresh key of the operating system in every call: leave it out",
    ),
    **dict.fromkeys(
        ("loss", "loss_fn"), "train calls it per_example_loss, a function of (params, example)"
    ),
    **dict.fromkeys(
        ("checkpoint", "groups", "progress", "resume", "watch"),
        "pabi.learn.train has it, with gradients by JAX (docs, I use optax)",
    ),
}


@validate.answering(_OTHER_OPTIONS)
def train(
    params: Any,
    per_example_loss: Callable[[Any, Any], Any],
    data: Any,
    run: NoisySGD,
    *,
    optimizer: Any = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    random_state: int | np.random.Generator | None = None,
    ledger: Ledger | None = None,
) -> JaxTrained:
    """The last iterate of `run` on your data, with its guarantee; every gradient is JAX's.

    A step is that of `pabi.learn.train`: each record's gradient is clipped by its norm over all parameters,
    and the sum is divided by `run.batch_size`. A gradient that is not finite counts as 0.

    Parameters
    ----------
    params : pytree of arrays
        Where training starts, chosen without looking at the data.
    per_example_loss : callable
        (params, example) ↦ the loss of one record, a scalar, without the regulariser, in functions of JAX.
        `example` is what `data` has of one record.
    data : pytree of arrays
        The first axis of each is the records.
    run : NoisySGD
        What to do, with plain clipping and no proximal map. What it says of the loss has to hold of
        `per_example_loss`.
    optimizer : optax.GradientTransformation, optional
        What makes a step of a noisy gradient, its learning rate included, for a run with update="other":
        composition alone applies. It sees noisy gradients and public parameters, never the data.
    epsilon : float, > 0, optional
        What the release may cost at `delta`. The noise of `run` is then the least that does, found by
        `pabi.calibrate`, and need not be stated.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    random_state : None, int or numpy Generator
        None (default): noise and batches from a ChaCha generator keyed by the operating system. Anything else
        is for tests: a PrivacyWarning, and a guarantee that says so.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before data are read.

    Returns
    -------
    JaxTrained
        The last parameters, the guarantee, and `run`, with the noise that was found for `epsilon`.

    Raises
    ------
    InvalidInput
        JAX is not installed, `params`, `data` or `optimizer` are not what is said above, or `run` is not
        executed here. Chains that need more than a noisy gradient in one vector, complex numbers, and calls
        back to Python, such as `jax.debug.print`. What `pabi.learn.train` refuses is refused here.
    TargetUnreachable
        No noise meets `epsilon`.
    NotApplicable
        No analysis covers the run; nothing has then been computed from the data.
    BudgetExceeded
        Less is left in `ledger`; nothing has then been computed from the data.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    The iteration of Bok, Su, Altschuler 2024, §4 (their `noisy SGD`).
    """
    jax = extra("jax", "jax")
    _refuse_untrained(run, optimizer)
    refuse_emulation()  # sums of products are computed on JAX's device
    terms = Terms(delta=delta, random_state=random_state, ledger=ledger)
    # JAX can be told to stop at numbers that are not finite, which would show a record, and to run Python
    # itself instead of what it compiles, which would see records.
    with (
        jax.enable_x64(True),
        jax.disable_jit(False),
        jax.debug_nans(False),
        jax.debug_infs(False),
    ):
        start, unravel = _flat(jax, params)
        of_steps = start.shape, float(np.linalg.norm(start)), False
        if epsilon is None:
            run, proven = paid_for(run, delta, *of_steps)
        else:
            target = Target(epsilon=epsilon, delta=delta)
            run, proven = settled(run, lambda run: met(run, target), *of_steps)
        records = _records(jax, data, run.n)
        validate.function("per_example_loss", per_example_loss)
        program, gradient = _programs_of(
            jax, per_example_loss, params=unravel(start), records=records
        )
        _refuse_other_chains(jax, optimizer, start)
        proven = checked(proven, *walk_of(run, start[None]))
        proven = proven.assuming(OF_ITS_OWN, *([PLACES] if run.order.fresh else []))

        hidden = hides(proven)
        if hidden:
            refuse_short(jax, "per_example_loss", gradient)
            if run.loss.glm or run.loss.kind in LINEAR_LOSSES:
                refuse_networks(jax, "per_example_loss", gradient, outputs=not run.loss.glm)
            proven = proven.assuming(*rests_on(run, *of_steps))
        loop = _Loop(jax, run, (program, unravel, mixes(jax, gradient)), optimizer, start, hidden)

        def execute(randomness: Randomness) -> Array:
            return loop.last(start, records, randomness.generator())

        x, guarantee = terms.release(proven, execute)
        last = jax.tree.map(lambda leaf: read_only(np.array(leaf)), unravel(x))
        notes = {**released_notes({"x": x}), **note_of_whole(last)}
        return JaxTrained(last, guarantee.noting(notes), run)


def _refuse_untrained(run: NoisySGD, optimizer: Any) -> None:
    """Raises InvalidInput for a run that is not executed here, or not by this optimiser."""
    other = isinstance(run, NoisySGD) and isinstance(run.rule, Other)
    refuse_unenforceable(replace(run, update="sgd") if other and optimizer is not None else run)
    require(
        optimizer is None or (hasattr(optimizer, "init") and hasattr(optimizer, "update")),
        "optimizer",
        f"expected an optax.GradientTransformation, got a {type(optimizer).__name__}",
    )
    must_be(
        optimizer is None or other,
        "update",
        '"other" for an optimizer, which composition alone covers (optax.sgd is a run without one, and '
        "pabi.updates has momentum and Adam)",
        run.update,
    )
    require(
        run.unit == "record",
        "unit",
        'expected "record": pabi.learn.train averages the gradients of users',
    )
    require(run.prox is None, "prox", "expected none: pabi.learn.train applies proximal maps")
    capped = dict(run.loss.parameters).get("residual_cap", 1.0) != 1.0
    require(
        run.clipping == "norm" and not capped,
        "residual_cap" if capped else "clipping",
        "expected whole gradients clipped by norm: pabi.learn.train clips residuals",
    )


def _flat(jax: Any, params: Any) -> tuple[Array, Callable[[Any], Any]]:
    """(the parameters as one vector of doubles, what makes parameters of a vector)."""
    leaves = jax.tree.leaves(params)
    require(
        leaves
        and all(
            jax.numpy.issubdtype(np.asarray(leaf).dtype, jax.numpy.floating) for leaf in leaves
        ),
        "params",
        "expected a pytree of arrays of floating-point numbers",
    )
    doubles = jax.tree.map(partial(np.asarray, dtype=np.float64), params)
    # A module of its own, which `import jax` alone does not load.
    flat, unravel = extra("jax.flatten_util", "jax").ravel_pytree(doubles)
    return starting_point(flat), unravel


def _records(jax: Any, data: Any, n: int) -> Any:
    """The data on the device. Raises InvalidInput unless every array has n rows of real numbers."""
    leaves = jax.tree.leaves(data)
    lengths = {np.shape(leaf)[0] if np.ndim(leaf) else 0 for leaf in leaves}
    if lengths != {n}:
        seen = ", ".join(str(length) for length in sorted(lengths)) or "no arrays"
        stacked = (
            "" if len(leaves) <= n else ": stack a list of examples into one array of each part"
        )
        raise InvalidInput("data", f"expected arrays of n = {n} rows each, got {seen}{stacked}")
    records = unshown("data", lambda: jax.tree.map(jax.numpy.asarray, data))
    require(
        not any(
            jax.numpy.issubdtype(leaf.dtype, jax.numpy.complexfloating)
            for leaf in jax.tree.leaves(records)
        ),
        "data",
        "expected real numbers, got complex ones",
    )
    refuse_platforms(
        device.platform for leaf in jax.tree.leaves(records) for device in leaf.devices()
    )
    return records


def refuse_platforms(platforms: Iterable[str]) -> None:
    """Raises InvalidInput for devices that put doubles together of shorter numbers."""
    for platform in platforms:
        must_be(
            platform in _DOUBLES,
            "data",
            "arrays on a CPU or GPU, which compute in doubles",
            platform,
        )


def _programs_of(jax: Any, loss: Any, *, params: Any, records: Any) -> tuple[Any, Any]:
    """The programs of a record's loss, and of its gradient. Raises InvalidInput unless that is a real scalar
    that JAX computes by itself.

    Only shapes are looked at.
    """
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), records)
    _refuse_other_arguments(loss)
    try:
        shape = jax.eval_shape(loss, params, one)
    except Exception as error:
        error.add_note(f"per_example_loss got what data has of one record: {one}")
        raise
    require(
        getattr(shape, "shape", None) == (),
        "per_example_loss",
        f"expected a scalar for one record, got {shape}",
    )
    require(
        jax.numpy.issubdtype(shape.dtype, jax.numpy.floating),
        "per_example_loss",
        f"expected a real number, got {shape.dtype}",
    )
    gradient = jax.make_jaxpr(jax.grad(loss))(params, one)
    refuse_callbacks(jax, "per_example_loss", gradient)
    return jax.make_jaxpr(loss)(params, one), gradient


def _refuse_other_arguments(loss: Any) -> None:
    """Raises InvalidInput for a function that cannot be called with parameters and one record."""
    try:
        taken = inspect.signature(loss)
    except ValueError:  # of what is not written in Python
        return
    fits = False
    with suppress(TypeError):
        fits = bool(taken.bind(None, None))
    require(
        fits,
        "per_example_loss",
        f"expected a function of (params, example), with what data has of one record, got one of {taken}",
    )


def _refuse_other_chains(jax: Any, optimizer: Any, start: Array) -> None:
    """Raises InvalidInput unless a chain steps by noisy gradients alone; no record is there yet."""
    if optimizer is None:
        return
    traced, failure = None, ""
    try:
        carried = Carried(start, optimizer.init(start))
        step = moved(jax, Other(), optimizer)
        several = partial(jax.lax.scan, lambda each, way: (step(each, way, None), None))
        way = jax.eval_shape(optimizer.update, start, carried.state, start)[0]
        if np.shape(way) != start.shape:
            raise ValueError
        traced = jax.make_jaxpr(several)(carried, np.zeros((2, *start.shape)))
    except Exception as error:
        failure = type(error).__name__
    require(
        traced is not None,
        "optimizer",
        "expected a chain that makes a step of a noisy gradient alone, all parameters in one vector, got "
        f"one that fails ({failure}): masks for a pytree, what follows values of the loss (plateau, L-BFGS), "
        "and what clips and adds noise itself (dpsgd), are not among them",
    )
    refuse_callbacks(jax, "optimizer", traced)


class _Loop:
    """The steps of a run, compiled for parts of it that the device holds."""

    def __init__(
        self,
        jax: Any,
        run: NoisySGD,
        loss: tuple[Any, Any, bool],
        optimizer: Any,
        start: Array,
        hidden: bool,
    ) -> None:
        """`loss`: its program, what makes parameters of a vector, and whether records go one by one.
        `hidden`: whether the guarantee needs the path to stay hidden."""
        self._jax, self._run, self._optimizer, self._hidden = jax, run, optimizer, hidden
        self._width = _width(run)
        limit = Limit.of(run, self._width)
        program, self._unravel, apart = loss
        alone = apart or run.order.fresh
        self._sum = gradients_of(jax, program, self._unravel(start), limit=limit, one_by_one=alone)
        self._step = moved(jax, run.rule, optimizer)
        self._part = jax.jit(self._steps)

    def last(self, start: Array, records: Any, generator: np.random.Generator) -> Array:
        """The last iterate. Every local here is secret but the result."""
        carried = Carried(start, self._state(start))
        for columns in self._columns(start, generator):
            carried = self._part(carried, records, columns)
        return np.array(carried.x, dtype=np.float64)

    def _state(self, start: Array) -> Any:
        return (
            self._run.rule.start(start) if self._optimizer is None else self._optimizer.init(start)
        )

    def _steps(self, carried: Any, records: Any, columns: Any) -> Any:
        """So many steps in turn; traced by JAX."""
        return self._jax.lax.scan(partial(self._one, records), carried, columns)[0]

    def _one(self, records: Any, carried: Any, column: Any) -> Any:
        jax, run = self._jax, self._run
        rows = column["rows"]
        batch = jax.tree.map(lambda leaf: leaf[rows], records)
        gradient = self._sum(self._unravel(carried.x), batch, rows >= 0) / run.batch_size
        if not self._hidden:
            gradient = with_noise(jax, gradient, column)
        carried = self._step(carried, run.loss.l2 * carried.x + gradient, column)
        if self._hidden:
            carried = carried._replace(x=with_noise(jax, carried.x, column))
        return carried, None

    def _columns(self, start: Array, generator: np.random.Generator) -> Iterator[dict[str, Any]]:
        """What so many steps need from the host, drawn in the order of `pabi.learn.train`."""
        run, factor = self._run, noise_factor(self._run)
        batches, moved = batch_rows(run, generator), least_move(run)
        together = max(1, _HELD // (start.size + self._width))
        for first in range(0, run.steps, together):
            end = min(first + together, run.steps)
            step_sizes, stated = run.schedule(first, end)
            stds = stated * factor
            # The noise is that of iterates, or of gradients.
            over = step_sizes if self._hidden else np.ones(end - first)
            noises = [
                StepNoise(up(float(std) * float(size)), float(size) * moved, start.size)
                for std, size in zip(stds, over, strict=True)
            ]
            rows, noise = [], []
            for k, of_step in zip(range(first, end), noises, strict=True):
                batch = batches.batch(k) if k < run.data_steps else None
                rows.append(np.zeros(0, dtype=np.intp) if batch is None else numbers_of(batch))
                noise.append(of_step.drawn(start.shape, generator))
            yield {
                "rows": _filled(rows, self._width),
                "noise": np.array(noise),
                "step_size": step_sizes,
                "grid": np.array([of_step.grid for of_step in noises]),
                "k": np.arange(first, end),
            }


def _width(run: NoisySGD) -> int:
    """Records of a batch that the loop is compiled for: the largest, but for a probability of nothing."""
    sizes = run.order.sizes
    return sizes.most if isinstance(sizes, FixedSizes) else max(1, sizes.covered(_NEVER)[0])


def _filled(batches: list[Any], width: int) -> Array:
    """(steps, width) row numbers, −1 where there is no record."""
    rows = np.full((len(batches), max([width, *map(len, batches)])), -1)
    for filled, batch in zip(rows, batches, strict=True):
        filled[: len(batch)] = batch
    return rows


# The batch selection of jax-privacy as batch schemes of pabi.


def from_batch_selection(strategy: Any, *, n: int, divisor: int) -> Batches:
    """The batch scheme that a strategy of jax-privacy draws.

    Parameters
    ----------
    strategy : jax_privacy.batch_selection.BatchSelectionStrategy
        `CyclicPoissonSampling` with cycle_length=1, `BallsInBinsSampling` or `FixedBatchSampling`.
    n : int
        Records.
    divisor : int
        What the training divides a batch's sum by, whatever the batch's own length.

    Returns
    -------
    Batches
        `Poisson`, `BallsInBins`, whose bins are drawn once for all cycles, or `FixedSize`. A run has as many
        steps as `strategy.iterations` says.

    Raises
    ------
    InvalidInput
        For a strategy that no scheme fits: cycles of Poisson batches, b-min-sep sampling, batches that are
        cut, draws with replacement, and a divisor other than the size of fixed batches, or one of which
        ⌈n/divisor⌉ is not the number of bins.

    References
    ----------
    docs, "I use optax".
    """
    selection = extra("jax_privacy.batch_selection", "jax")
    n, divisor = COUNT("n", n), COUNT("divisor", divisor)
    if type(strategy) is selection.CyclicPoissonSampling:
        return _poisson(strategy, divisor)
    if type(strategy) is selection.BallsInBinsSampling:
        return _bins(strategy, n, divisor)
    _require(type(strategy) is selection.FixedBatchSampling, f"a {type(strategy).__name__}")
    return _fixed(strategy, divisor)


def _require(holds: object, what: str) -> None:
    """Raises InvalidInput that says what batches are otherwise."""
    require(holds, "strategy", f"expected batches that pabi has a scheme for, got {what}")


def _poisson(strategy: Any, divisor: int) -> Poisson:
    _require(strategy.cycle_length == 1, f"Poisson sampling in a cycle of {strategy.cycle_length}")
    _require(
        strategy.truncated_batch_size is None,
        "batches that are cut: one record's membership then depends on the others",
    )
    return Poisson(divisor, probability=strategy.sampling_prob)


def _bins(strategy: Any, n: int, divisor: int) -> BallsInBins:
    bins = BallsInBins(divisor)
    require(
        bins.per_epoch(n) == strategy.cycle_length,
        "divisor",
        f"expected one with ⌈n/divisor⌉ = {strategy.cycle_length}, the number of bins, got {divisor}",
    )
    return bins


def _fixed(strategy: Any, divisor: int) -> FixedSize:
    _require(not strategy.replace, "draws with replacement: a record can be in a batch twice")
    require(
        strategy.batch_size == divisor,
        "divisor",
        f"expected {strategy.batch_size}, the size of batches, got {divisor}",
    )
    return FixedSize(divisor)

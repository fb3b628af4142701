"""Trains a module of PyTorch as a run describes it, and saves it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.account.calibration import met
from pabi.account.targets import Target
from pabi.budget.ledger import Ledger, check_ledger
from pabi.describe.runs import OF_THE_RUN, NoisySGD
from pabi.describe.statistics import NoisySecondMoments
from pabi.describe.vector_losses import LINEAR_LOSSES
from pabi.execute.computed_steps import paid_for, settled
from pabi.execute.engine import Trained, TrainOptions
from pabi.execute.hiding import refuse_unenforceable, unshown
from pabi.integrations.torch.datasets import (
    BY_RECORD,
    COMPOSED,
    FROZEN,
    ROWS,
    ModuleTask,
    Pairs,
    Unchanged,
    apart,
    dataset_of,
    made_up,
    refuse_dependent,
    tried,
)
from pabi.integrations.torch.head_training import Head, head_name, train_head
from pabi.integrations.torch.library import (
    array_of,
    checked_loss_of_records,
    checked_module,
    device_named,
    device_of,
    refuse_another,
    refuse_other_ranks,
    torch,
)
from pabi.learn.pipelines import note_of_whole
from pabi.learn.plans import PREPROCESSING
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array
from pabi.tradeoff.certificate import MODELS
from pabi.tradeoff.guarantee import Guarantee

# The gradients of any module, record by record, in calls of one shape.
#
# `torch.func` computes the gradient of every record by itself. Other records in the same call can still
# change how numbers are rounded: kernels are chosen by shape. So every call has the same number of rows,
# the last one filled up with zeros, and a trial on made-up rows has to give the same bits wherever a row
# stands.


_AT_ONCE, _HELD = 64, 1 << 23  # records of a call; numbers of their gradients


class ModuleGradients:
    """(x, rows) ↦ (len(rows), p): gradients in the trainable parameters, one after another, at x (p,).

    A record whose gradient is not finite has the gradient 0: that is decided by itself, and seen by nobody.
    """

    def __init__(self, module: Any, loss: Any, pairs: Pairs, *, chunk: int | None) -> None:
        require(
            not any(isinstance(layer, torch().jit.ScriptModule) for layer in module.modules()),
            "module",
            "expected no torch.jit.ScriptModule, got one: pass what it was made of",
        )
        self._module, self._loss, self._pairs = module, loss, pairs
        self._names = [name for name, p in module.named_parameters() if p.requires_grad]
        self.start = start_of(module)
        require(self.start.size, "module", "expected parameters with requires_grad, got none")
        parameters = [module.get_parameter(name) for name in self._names]
        self._shapes = [parameter.shape for parameter in parameters]
        self._dtype, self._device = parameters[0].dtype, device_of(module)
        self.chunk = chunk or max(1, min(_AT_ONCE, _HELD // self.start.size, len(pairs)))
        self._gradients = _vectorised(module, loss)

    def __call__(self, x: Array, rows: NDArray[np.intp]) -> Array:
        """The gradients of these rows."""
        starts = range(0, len(rows), self.chunk)
        parts = [self._of(x, rows[first : first + self.chunk]) for first in starts]
        return np.concatenate(parts) if parts else np.zeros((0, len(x)))

    def set_parameters(self, module: Any, x: Array) -> None:
        """Puts the parameters x into a module of the same architecture, in its own precision."""
        with torch().no_grad():
            for name, value in self._parameters(x).items():
                module.get_parameter(name).copy_(value)

    def refuse_unfit(self, *, anywhere: bool) -> None:
        """Raises InvalidInput unless a record's gradient depends on that record alone, to the last bit.

        `anywhere`: wherever it stands, too.
        """
        inputs, targets = self._pairs.some([0])
        mode = "train" if self._module.training else "eval"
        refuse_dependent(self._module, self._outputs, inputs, mode, max(ROWS, self.chunk))
        rows, answers = made_up(inputs, self.chunk, 2), made_up(targets, self.chunk, 2)
        others = made_up(inputs, self.chunk, 3)
        others[0] = rows[0]
        first = tried(lambda x: self._flat(self.start, x, answers), rows)
        before = Unchanged(self._module)
        beside = tried(lambda x: self._flat(self.start, x, answers), others)
        before.refuse_changed(mode)
        require(
            np.array_equal(first[0], beside[0], equal_nan=True),
            "module",
            "a record's gradient depends on the other records",
        )
        if not anywhere or self._draws(rows, answers):
            return
        turn = torch().arange(self.chunk).roll(1)
        turned = tried(lambda x: self._flat(self.start, x, answers[turn]), rows[turn])
        require(
            np.array_equal(turned, first[turn.numpy()], equal_nan=True),
            "chunk",
            f"expected 1 for this module and batches that are drawn anew, got {self.chunk}: the last "
            "bits of a gradient depend on the record's place",
        )

    def _draws(self, rows: Any, answers: Any) -> bool:
        """Whether the module draws, as dropout does: places are then random already."""
        one, other = (self._flat(self.start, rows, answers) for _ in range(2))
        return not np.array_equal(one, other, equal_nan=True)

    def _outputs(self, rows: Any) -> Any:
        with torch().no_grad():
            return self._module(self._input(rows))

    def _of(self, x: Array, rows: NDArray[np.intp]) -> Array:
        inputs, targets = (self._filled(part) for part in self._pairs.some(rows.tolist()))
        gradients = unshown("loss", lambda: self._flat(x, inputs, targets))[: len(rows)]
        gradients[~np.isfinite(gradients).all(axis=1)] = 0.0
        return gradients

    def _flat(self, x: Array, inputs: Any, targets: Any) -> Array:
        # PyTorch can be told to stop at gradients that are not finite, which would show a record.
        with torch().autograd.set_detect_anomaly(False):
            values = self._gradients(self._parameters(x), self._input(inputs), self._input(targets))
        flat = [array_of(values[name]).reshape(len(inputs), -1) for name in self._names]
        return np.concatenate(flat, axis=1).astype(np.float64)

    def _filled(self, rows: Any) -> Any:
        missing = self.chunk - len(rows)
        return torch().cat([rows, rows.new_zeros((missing, *rows.shape[1:]))]) if missing else rows

    def _input(self, rows: Any) -> Any:
        rows = rows.to(self._device)
        return rows.to(self._dtype) if rows.is_floating_point() else rows

    def _parameters(self, x: Array) -> dict[str, Any]:
        whole = torch().as_tensor(np.array(x)).to(self._device, self._dtype)
        parts = whole.split([shape.numel() for shape in self._shapes])
        return {
            name: part.reshape(shape)
            for name, part, shape in zip(self._names, parts, self._shapes, strict=True)
        }


def _vectorised(module: Any, loss: Any) -> Any:
    """(parameters, inputs, targets) ↦ by name, the gradient of the loss at every row."""
    func = torch().func

    def value(parameters: dict[str, Any], row: Any, target: Any) -> Any:
        output = func.functional_call(module, parameters, (row.unsqueeze(0),))
        return loss(output, target.unsqueeze(0)).reshape(())

    # Each record draws for itself, as in a batch.
    return func.vmap(func.grad(value), in_dims=(None, 0, 0), randomness="different")


# Trains all parameters of a module, by the clipped gradients of every record.


def start_of(module: Any) -> Array:
    """The trainable parameters of a module, one after another, as doubles."""
    flat = [array_of(p).astype(np.float64).ravel() for p in module.parameters() if p.requires_grad]
    return np.concatenate(flat) if flat else np.zeros(0)


def train_module(
    module: Any, fresh: Any, *, loss: Any, task: ModuleTask, chunk: int | None, device: Any
) -> Trained:
    """Trains `module`, which the records go through, and puts its parameters into `fresh`, which they do not.

    `loss`: of one record. `chunk`: of how many records in a call.
    """
    working = module.to(device)
    if task.proven.method != COMPOSED:
        # Rounding must not carry apart what the proof says stays together: doubles are fine enough.
        working = working.double()
    gradients = ModuleGradients(working, loss, task.pairs, chunk=chunk)
    gradients.refuse_unfit(anywhere=task.run.order.fresh)
    sentences = (PREPROCESSING, FROZEN, BY_RECORD, *task.assumed)
    before = Unchanged(working)
    with task.reserved(sentences, x0=gradients.start):
        result = task.execute(gradients, gradients.start)
        before.refuse_changed("train" if working.training else "eval")
    gradients.set_parameters(fresh, result.x)
    return replace(result, guarantee=result.guarantee.assuming(*sentences))


@dataclass(frozen=True, eq=False)
class TrainedModule(Trained):
    """The module that a training run releases, with its guarantee.

    Attributes
    ----------
    module : torch.nn.Module
        A copy of the module that was passed, with the trained parameters in place, of a head in eval mode.
        No record went through it: buffers and attributes are as they were.
    guarantee : Guarantee
        What its release costs, second moments for preconditioning included.
    run : NoisySGD
        The description that was both accounted and executed.
    x : float64 array
        The last iterate in double precision, read-only: of a head (width, K) or, of one output, (width,), a
        bias being the weight of a last feature; of other modules the trainable parameters one after another.
        Of a preconditioned head it is in the units of the mapped rows.

    References
    ----------
    docs, "I have a PyTorch model".
    """

    module: Any

    def __repr__(self) -> str:
        kind = type(self.module).__name__
        return f"TrainedModule({kind}, {self.guarantee!r}, x of shape {self.x.shape})"


_OTHER_OPTIONS = {
    **OF_THE_RUN,
    "optimizer": "steps are those of the run: state its step_size, and update=pabi.updates.Momentum(0.9)",
    "criterion": "train calls it loss: write loss={}",
}


@validate.answering(_OTHER_OPTIONS)
def train(
    module: Any,
    dataset: Any,
    run: NoisySGD,
    *,
    head: Any = None,
    loss: Any = None,
    device: Any = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    precondition: NoisySecondMoments | None = None,
    intercept_scaling: float = 1.0,
    chunk: int | None = None,
    workers: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    random_state: int | np.random.Generator | None = None,
    progress: bool = False,
    ledger: Ledger | None = None,
) -> TrainedModule:
    """The module with the last iterate of `run` on a dataset, and its guarantee.

    With a `head`, a linear layer whose output is the module's, the layers before it are frozen. They are put
    into eval mode and map every record once. Their features are scaled down to the norm that `run.loss`
    states, and the head is trained by `pabi.learn.train` as a linear model is, with the loss that `run.loss`
    describes. `clipping="residual"` and `"ball"` can be used. On a CUDA device the two products of a step
    are computed there in double precision, everything else by numpy. Batches that are drawn anew at every
    step are always trained on the CPU.

    Without one, all parameters with `requires_grad` are trained by their gradients of `loss`, record by
    record, clipped by norm. Whatever `run.loss` says of the module is your word: of a network usually
    `Loss.unknown()`. Where every iterate is charged for, gradients are computed in the module's own
    precision, otherwise in doubles.

    Training begins at the parameters that the module has. They must not depend on the records.

    Parameters
    ----------
    module : torch.nn.Module
        The module. It is left as it is.
    dataset : torch.utils.data.Dataset or DataLoader
        Map-style, of n pairs (input tensor, target). Row i of the run is `dataset[i]`. Of a plain
        `DataLoader` the dataset is taken: batches are those of the run.
    run : NoisySGD
        What to do.
    head : str or torch.nn.Linear, optional
        The head, or its name in the module. None: all of the module is trained, by products if it is an
        `nn.Linear` itself. Frozen layers may add to what the head says, as in `base(x) + head(features)`.
    loss : torch loss, or callable
        Of a head only a check: None, or `CrossEntropyLoss` (softmax), `BCEWithLogitsLoss` (logistic),
        `HuberLoss` (huber or squared, of its delta), `MSELoss` (squared, which is half of it with residuals
        clipped) or `PoissonNLLLoss` (poisson), with options as by default. Otherwise required: (output
        (1, …), target (1, …)) ↦ a number, the loss of one record.
    device : str or torch.device, optional
        Where the module computes. None: where its parameters are.
    epsilon : float, > 0, optional
        What the release may cost at `delta`, that of `precondition` included. The noise of `run` is then the
        least that does, found by `pabi.calibrate`, and need not be stated.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    precondition : NoisySecondMoments, optional
        Only of a head: features are mapped by what this release shows of their second moments, which is
        composed with the run. Its `feature_norm` is that of the features, and `run.loss` states the norm of
        mapped ones.
    intercept_scaling : float, > 0
        κ: a bias is the weight of a constant feature κ, divided by κ. The norm that `run.loss` states counts
        it, so that features are scaled down to √(norm² − κ²). 1 is the plain bias of PyTorch.
    chunk : int, ≥ 1, optional
        Records whose gradients are computed in one call, without a head. None: up to 64.
    workers : int, ≥ 0
        Processes that load the dataset for a head's features.
    checkpoint : path, optional
        A secret file that is kept up to date and removed at the end, as of `pabi.learn.train`. Not with
        `precondition`.
    resume : path, optional
        The checkpoint of the same module, run and dataset, from which to go on. Features of a head are
        computed again. Not with `precondition`.
    checkpoint_seconds : float, ≥ 0, in seconds
        The least time between two writings of the checkpoint.
    random_state : None, int or numpy Generator
        None (default): noise and batches from a ChaCha generator keyed by the operating system. Anything else
        is for tests: a PrivacyWarning, and a guarantee that says so.
    progress : bool
        Whether to show steps and time on standard error.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before features or gradients are computed.

    Returns
    -------
    TrainedModule
        A copy of the module, its guarantee, and `run`, with the noise that was found for `epsilon`. The notes
        of the guarantee have the hash of the module's state (`pabi.learn.model_hash`).

    Raises
    ------
    InvalidInput
        An argument is wrong, naming it; PyTorch is missing; layers make of a record what depends on other
        records, keep what they see, have hooks or complex numbers; a head that is not linear, not the last
        layer or whose weights are shared; a loss or an option of it that the run does not describe; a loader
        that is not plain; a process other than the first of a group; a checkpoint with `precondition`, whose
        moments would be released twice; whatever `pabi.learn.train` refuses. No message shows records.
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
    UserWarning
        Some features of a head are longer than `run.loss` or `precondition` states, once in a process. It
        depends on the data.

    References
    ----------
    docs, "I have a PyTorch model", and "Training".
    """
    refuse_unenforceable(run)
    refuse_other_ranks()
    check_ledger(ledger)
    pairs = Pairs(dataset_of(dataset, run), validate.integer("workers", workers, at_least=0))
    require(
        len(pairs) == run.n, "n", f"expected {len(pairs)}, the length of the dataset, got {run.n}"
    )
    name = head_name(checked_module(module), head)
    for field, file in (("checkpoint", checkpoint), ("resume", resume)):
        require(
            file is None or precondition is None,
            field,
            "expected None with precondition: second moments would be released twice",
        )
    own, fresh = (
        apart(module),
        apart(module),
    )  # every record goes through the first, none through the other
    place = device_named(device, own)
    if name is not None:
        _refuse_without_loss(run, loss)
    else:
        _refuse_without_head(run, precondition)
        loss = checked_loss_of_records(loss)
    before = () if precondition is None else (precondition.guarantee(delta),)
    target = None if epsilon is None else Target(epsilon=epsilon, delta=delta)
    proven = None
    if name is not None:
        stated = validate.number("intercept_scaling", intercept_scaling, above=0.0)
        last = Head(own, name)
        scaling = None if last.layer.bias is None else stated
        weights = last.weights(scaling)
        of_steps = weights.shape, float(np.linalg.norm(weights))
        if target is None:
            run, proven = paid_for(run, delta, *of_steps)
        else:
            run, proven = settled(run, lambda run: met(run, target, before), *of_steps)
    elif target is not None:
        start = start_of(own)
        begin = float(np.linalg.norm(start))
        run, proven = settled(run, lambda run: met(run, target, before), start.shape, begin, False)
    options = TrainOptions(
        delta=delta,
        random_state=random_state,
        ledger=ledger,
        checkpoint=checkpoint,
        resume=resume,
        checkpoint_seconds=checkpoint_seconds,
        progress=progress,
        proven=proven,
    )
    task = ModuleTask(run, pairs, options)
    if name is not None:
        result = train_head(
            last, task, Head(fresh, name), scaling=scaling, moments=precondition, device=place
        )
    else:
        at_once = None if chunk is None else validate.integer("chunk", chunk, at_least=1)
        result = train_module(own, fresh, loss=loss, task=task, chunk=at_once, device=place)
    return TrainedModule(result.x, result.guarantee.noting(note_of_whole(fresh)), run, fresh)


def _refuse_without_loss(run: NoisySGD, loss: Any) -> None:
    require(
        run.loss.kind in LINEAR_LOSSES,
        "run",
        f"expected a loss of a linear model, such as Loss.softmax, got {run.loss.kind}",
    )
    refuse_another(loss, run.loss)


def _refuse_without_head(run: NoisySGD, precondition: Any) -> None:
    require(
        run.loss.kind not in LINEAR_LOSSES,
        "head",
        f"missing: {run.loss.kind} is the loss of a linear layer; name it, or state what holds of the "
        "whole module, such as Loss.unknown()",
    )
    require(precondition is None, "precondition", "expected None without a head")


# A trained module as a file of PyTorch that its guarantee travels in.


FORMAT, VERSION = "pabi.module", 1
_KEYS = {"format", "version", "state_dict", "guarantee"}
_SAVED = "expected a file that save wrote"


def save(trained: TrainedModule, path: str | os.PathLike[str]) -> None:
    """Writes the module's parameters and buffers and the guarantee to a file, with `torch.save`.

    `torch.load(path, weights_only=True)` reads it: a dict whose `state_dict` is that of the module, and whose
    `guarantee` is the JSON that `pabi verify` checks. The random state of the training is not in it.

    Parameters
    ----------
    trained : TrainedModule
        What `train` returned.
    path : path
        The file.

    Raises
    ------
    InvalidInput
        `trained` is something else, or its module has a state beside parameters and buffers, or another one
        than was released: weights that were trained further, or rounded, are kept by `torch.save`.
    OSError
        The file cannot be written.

    References
    ----------
    docs, "I have a PyTorch model".
    """
    validate.instance("trained", trained, TrainedModule, "what train returned, not its module")
    state = _state_of(trained.module)
    _refuse_another("trained", state, trained.guarantee)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "state_dict": state,
        "guarantee": trained.guarantee.to_json(),
    }
    torch().save(content, path)


def load(path: str | os.PathLike[str], module: Any) -> Guarantee:
    """Puts what `save` wrote into a module, and returns the guarantee that came with it.

    Nothing in the file is executed. Nothing shows either that the weights are the ones that the guarantee was
    computed for: whoever could change the file is trusted with that.

    Parameters
    ----------
    path : path
        The file.
    module : torch.nn.Module
        Of the architecture that was trained. Its state is replaced.

    Returns
    -------
    Guarantee
        Not yet verified: `pabi.verify` checks it.

    Raises
    ------
    InvalidInput
        A file that `save` did not write, of another architecture, or of other weights than its guarantee's
        notes say.
    OSError
        The file cannot be read.

    References
    ----------
    docs, "I have a PyTorch model".
    """
    content = _checked(path, _loaded(path, _SAVED))
    guarantee = Guarantee.from_json(content["guarantee"])
    _refuse_another(str(os.fspath(path)), content["state_dict"], guarantee)
    try:
        checked_module(module).load_state_dict(content["state_dict"])
    except RuntimeError as error:
        raise InvalidInput("module", f"expected the architecture of the file: {error}") from None
    return guarantee


def _refuse_another(field: str, state: dict[str, Any], guarantee: Guarantee) -> None:
    """Raises InvalidInput for another state than that whose hash the notes of the guarantee have."""
    released, own = guarantee.notes.get(MODELS, ()), note_of_whole(state).get(MODELS, ())
    require(
        not released or not own or own[0] in released,
        field,
        "expected the weights and buffers that were released with the guarantee, got others",
    )


def _state_of(module: Any) -> dict[str, Any]:
    """Parameters and buffers by name, as a state dict has them, and what no hook has a say in."""
    state = {}
    for prefix, layer in module.named_modules(remove_duplicate=False):
        require(
            type(layer).get_extra_state is torch().nn.Module.get_extra_state,
            prefix or "module",
            "expected parameters and buffers alone, got a get_extra_state",
        )
        passing = layer._non_persistent_buffers_set
        for name, tensor in (*layer._parameters.items(), *layer._buffers.items()):
            if tensor is not None and name not in passing:
                state[f"{prefix}.{name}".lstrip(".")] = tensor.detach()
    return state


def read_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The state dict in a file of `save`'s, or of `torch.save(module.state_dict(), path)`.

    Nothing in the file is executed. Raises InvalidInput for anything else.
    """
    expected = (
        "expected a file of pabi.integrations.torch.save, or a state_dict that torch.save wrote"
    )
    content = _loaded(path, expected)
    if isinstance(content, dict) and content.get("format") == FORMAT:
        content = _checked(path, content)["state_dict"]
    tensor = torch().Tensor
    named = isinstance(content, dict) and content and all(type(key) is str for key in content)
    require(
        named and all(isinstance(value, tensor) for value in content.values()),
        str(os.fspath(path)),
        expected,
    )
    require(
        not any(map(_repeats, content.values())),
        str(os.fspath(path)),
        "expected tensors whose numbers are all in it",
    )
    return dict(content)


def _repeats(tensor: Any) -> bool:
    """Whether it has fewer numbers than its shape says, as after `expand`: a short file could fill memory."""
    if tensor.layout is not torch().strided or tensor.is_nested:
        return False
    return bool(tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes())


def _loaded(path: str | os.PathLike[str], expected: str) -> Any:
    pytorch = torch()
    try:
        return pytorch.load(path, weights_only=True, map_location="cpu")
    except OSError:
        raise
    except Exception:  # of whatever kind: the file is a stranger's
        raise InvalidInput(str(os.fspath(path)), expected) from None


def _checked(path: str | os.PathLike[str], content: Any) -> dict[str, Any]:
    ours = isinstance(content, dict) and set(content) == _KEYS and content["format"] == FORMAT
    require(ours, str(os.fspath(path)), _SAVED)
    version = content["version"]
    require(
        type(version) is int and version == VERSION,  # a tensor is equal to it number by number
        "version",
        f"expected {VERSION}, got {validate.excerpt(version)}",
    )
    require(
        isinstance(content["state_dict"], dict) and isinstance(content["guarantee"], str),
        str(os.fspath(path)),
        _SAVED,
    )
    return content  # type: ignore[no-any-return]

"""Trains a module of PyTorch as a run describes it: a linear head, or all parameters record by record.

Both hand gradients to the trainer that everything else is trained by, so that noise, batches, clipping and
rounding are the ones that were accounted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pabi.budget.ledger import Ledger, check_ledger
from pabi.describe.runs import NoisySGD
from pabi.describe.second_moments import NoisySecondMoments
from pabi.execute.hiding import refuse_unenforceable
from pabi.guarantees.guarantee import Guarantee
from pabi.integrations.torch.datasets import Pairs
from pabi.integrations.torch.head_training import Preparation, train_head
from pabi.integrations.torch.heads import Head, head_name
from pabi.integrations.torch.library import checked_module, device_named
from pabi.integrations.torch.losses import checked_loss_of_records, is_linear, refuse_another
from pabi.integrations.torch.module_training import train_module
from pabi.integrations.torch.tasks import ModuleTask
from pabi.integrations.torch.trials import apart
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array


@dataclass(frozen=True, eq=False)
class TrainedModule:
    """The module that a training run releases, with its guarantee.

    Attributes
    ----------
    module : torch.nn.Module
        A copy of the module that was passed, with the trained parameters in place. No record went through
        it: buffers and attributes are as they were.
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
    guarantee: Guarantee
    run: NoisySGD
    x: Array

    def __repr__(self) -> str:
        kind = type(self.module).__name__
        return f"TrainedModule({kind}, {self.guarantee!r}, x of shape {self.x.shape})"


def train(
    module: Any,
    dataset: Any,
    run: NoisySGD,
    *,
    head: Any = None,
    loss: Any = None,
    device: Any = None,
    precondition: NoisySecondMoments | None = None,
    intercept_scaling: float = 1.0,
    chunk: int | None = None,
    workers: int = 0,
    random_state: int | np.random.Generator | None = None,
    delta: float = 1e-5,
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
    dataset : torch.utils.data.Dataset
        Map-style, of n pairs (input tensor, target). Row i of the run is `dataset[i]`.
    run : NoisySGD
        What to do.
    head : str or torch.nn.Linear, optional
        The head, or its name in the module. None: all of the module is trained, by products if it is an
        `nn.Linear` itself.
    loss : torch loss, or callable
        Of a head only a check: None, or `CrossEntropyLoss` (softmax), `BCEWithLogitsLoss` (logistic),
        `HuberLoss` (huber or squared, of its delta), `MSELoss` (squared, which is half of it with residuals
        clipped) or `PoissonNLLLoss` (poisson), with options as by default. Otherwise required: (output
        (1, …), target (1, …)) ↦ a number, the loss of one record.
    device : str or torch.device, optional
        Where the module computes. None: where its parameters are.
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
    random_state : None, int or numpy Generator
        None (default): noise and batches from a ChaCha generator keyed by the operating system. Anything else
        is for tests: a PrivacyWarning, and a guarantee that says so.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    progress : bool
        Whether to show steps and time on standard error.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before features or gradients are computed.

    Returns
    -------
    TrainedModule
        A copy of the module, its guarantee, and `run`.

    Raises
    ------
    InvalidInput
        An argument is wrong, naming it; PyTorch is missing; layers make of a record what depends on other
        records, keep what they see, have hooks or complex numbers; a head that is not linear, not the last
        layer or whose weights are shared; a loss or an option of it that the run does not describe; whatever
        `pabi.learn.train` refuses. No message shows records.
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
    check_ledger(ledger)
    pairs = Pairs(dataset, validate.integer("workers", workers, at_least=0))
    if len(pairs) != run.n:
        raise InvalidInput("n", f"expected {len(pairs)}, the length of the dataset, got {run.n}")
    name = head_name(checked_module(module), head)
    own, fresh = (
        apart(module),
        apart(module),
    )  # every record goes through the first, none through the other
    place = device_named(device, own)
    task = ModuleTask(run, pairs, delta, random_state, progress=progress, ledger=ledger)
    if name is not None:
        _refuse_without_loss(run, loss)
        scaling = validate.number("intercept_scaling", intercept_scaling, above=0.0)
        last = Head(own, name)
        preparation = Preparation(scaling if last.has_bias else None, precondition, place)
        result = train_head(last, task, preparation, Head(fresh, name))
    else:
        _refuse_without_head(run, precondition)
        at_once = None if chunk is None else validate.integer("chunk", chunk, at_least=1)
        loss = checked_loss_of_records(loss)
        result = train_module(own, fresh, loss=loss, task=task, chunk=at_once, device=place)
    return TrainedModule(fresh, result.guarantee, run, result.x)


def _refuse_without_loss(run: NoisySGD, loss: Any) -> None:
    if not is_linear(run.loss):
        raise InvalidInput(
            "run", f"expected a loss of a linear model, such as Loss.softmax, got {run.loss.kind}"
        )
    refuse_another(loss, run.loss)


def _refuse_without_head(run: NoisySGD, precondition: Any) -> None:
    if is_linear(run.loss):
        raise InvalidInput(
            "head",
            f"missing: {run.loss.kind} is the loss of a linear layer; name it, or state what holds of the "
            "whole module, such as Loss.unknown()",
        )
    if precondition is not None:
        raise InvalidInput("precondition", "expected None without a head")

"""Trains a described run on the gradient sums of a cluster."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pabi.budget.ledger import Ledger
from pabi.describe.runs import NoisySGD
from pabi.describe.vector_losses import LINEAR_LOSSES, executable
from pabi.execute.engine import Trained, TrainOptions, train_and_keep
from pabi.execute.hiding import refuse_unenforceable
from pabi.integrations.dask.blocks import Columns, blocks_of
from pabi.integrations.dask.sums import ClusterGradients, Declared, OwnGradients, Recipe
from pabi.integrations.dask.tasks import check_client
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require


def train(
    run: NoisySGD,
    X: Any,
    y: Any,
    *,
    client: Any,
    per_record_gradients: OwnGradients | None = None,
    x0: ArrayLike | None = None,
    feature_norm: float | None = None,
    intercept_scaling: float | None = None,
    ranges: Any = None,
    random_state: int | np.random.Generator | None = None,
    delta: float = 1e-5,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool = False,
    ledger: Ledger | None = None,
    groups: ArrayLike | None = None,
    weights: Any = None,
) -> Trained:
    """The last iterate of `run` on the records that a cluster's workers hold, with its guarantee.

    The steps are those of `pabi.learn.train`. This process draws batches and noise and takes the steps; the
    iterate travels to the workers, and sums of clipped gradients come back. A step is taken with the sums of
    all partitions that have rows in its batch, of each once, added in the order of the partitions. On the
    same noise the iterate is that of the same table in memory, but for the rounding of sums.

    Parameters
    ----------
    run : NoisySGD
        What to do. Rows are numbered 0..n − 1, partition after partition.
    X : array or data frame of dask's, path, list of paths, or LargeTable
        The features. A path names Parquet, Feather or Arrow files, each of which is a partition, or an
        .npy file; every worker has to find it under that name.
    y : str, collection of dask's, array-like, or path of an .npy file
        The targets: the name of a column of X; a collection with the partitions of X; or, where X is an
        array, numbers in memory or an .npy file.
    client : distributed.Client
        The cluster. Its workers have the same pabi.
    per_record_gradients : callable, optional
        (x, features, targets) ↦ (m, *x.shape): each record's gradient at x, unclipped and without the
        regulariser, for (m, …) rows, never none. It travels to the workers and must not keep or show what it
        is given. None: those of `run.loss`, of a linear model.
    x0 : array, optional
        The starting point, chosen without looking at the data. None: zeros, for a linear model; of a softmax
        loss, x0 says how many classes there are.
    feature_norm : float, > 0, optional
        To which longer rows are scaled down. None: the norm that the loss states, where there is no
        intercept.
    intercept_scaling : float, > 0, optional
        κ: a last feature of constant κ.
    ranges : (2, d) or (2,) array, optional
        Public ranges that features are clipped to, then mapped onto [−1, 1].
    random_state : None, int or numpy Generator
        None (default): noise, permutations and sampled batches from a ChaCha generator keyed by the operating
        system of this machine. Anything else is for tests: a PrivacyWarning, and a guarantee that says so.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    checkpoint, resume : path, optional
        As of `pabi.learn.train`, on this machine. A run may be resumed on another cluster, from the same
        rows in the same order.
    checkpoint_seconds : float, ≥ 0, in seconds
        The least time between two writings of the checkpoint.
    progress : bool
        Whether to show steps and time on standard error.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before the first step.
    groups : (m,) array-like
        The user of every row, for a run with `unit="user"`, in memory.
    weights : as y, optional
        By what the gradient of each record is multiplied, in [0, 1], as `weighted` of the gradients of
        `pabi.learn` does. A record's weight depends on that record and public numbers alone. Not beside
        `per_record_gradients`, which may do so by itself.

    Returns
    -------
    Trained
        The last iterate, its guarantee, and `run`. The guarantee assumes that the cluster keeps to itself
        what it sees.

    Raises
    ------
    InvalidInput
        The extra `dask` is not installed. `client` is none, or its workers lack pabi, have another version,
        or compute in different ways. Rows are missing, not finite, or not the same in every pass; `y` has not
        as many. The cluster failed. Anything that `pabi.learn.train` refuses. Nothing was released.
    NotApplicable
        No analysis covers the run; nothing was released.
    BudgetExceeded
        Less is left in `ledger`; nothing was released.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    docs, "I have a cluster"; docs, "Theory", 9, for the sums.
    """
    refuse_unenforceable(run)
    check_client(client)
    declared = Declared(feature_norm, intercept_scaling, ranges)
    blocks = blocks_of(X, y, weights)
    if per_record_gradients is None:
        recipe = replace(_of_loss(run, declared, blocks.columns, x0), weighted=weights is not None)
    else:
        beside = vars(declared) | {"weights": weights}
        recipe = _of_callable(run, beside, blocks.columns, per_record_gradients)
    gradients = ClusterGradients(client, recipe, blocks)
    if x0 is None and recipe.loss is not None:
        x0 = np.zeros(gradients.example.shape)
    options = TrainOptions(
        delta=delta,
        random_state=random_state,
        ledger=ledger,
        checkpoint=checkpoint,
        resume=resume,
        checkpoint_seconds=checkpoint_seconds,
        progress=progress,
        groups=groups,
    )
    try:
        return train_and_keep(None, run, gradients, x0, options)
    finally:
        gradients.close()


def _of_loss(run: NoisySGD, declared: Declared, columns: Columns, x0: ArrayLike | None) -> Recipe:
    """The gradients of the loss that is described. Raises InvalidInput where it is of no linear model."""
    require(
        run.loss.kind in LINEAR_LOSSES,
        "per_record_gradients",
        f"missing: the gradients of a loss of kind {run.loss.kind!r} are not known here",
    )
    parameters = dict(run.loss.parameters)
    loss = executable(run.loss.kind, **parameters)
    require(
        declared.feature_norm is not None or declared.intercept_scaling is None,
        "feature_norm",
        "missing: beside an intercept, the loss does not say how long rows are",
    )
    if declared.feature_norm is None:
        declared = replace(declared, feature_norm=parameters["feature_norm"])
    classes = parameters.get("classes")
    if loss.response == "class" and classes is None:
        if x0 is None or np.ndim(x0) != 2:
            raise InvalidInput("x0", "expected shape (d, K): it says how many classes there are")
        classes = int(np.shape(x0)[1])
    return Recipe(run, columns, declared, loss=loss, classes=classes)


def _of_callable(
    run: NoisySGD, beside: dict[str, Any], columns: Columns, gradients: OwnGradients
) -> Recipe:
    """The gradients that the caller computes. Raises InvalidInput where anything is stated `beside` them."""
    validate.function("per_record_gradients", gradients)
    for name, value in beside.items():
        require(
            value is None, name, "expected None beside per_record_gradients: rows go as they are"
        )
    return Recipe(run, columns, Declared(), own=gradients)

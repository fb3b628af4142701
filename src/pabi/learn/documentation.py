"""What the estimators say: docstrings they have in common, sentences of their guarantees, names of others."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, TypeVar

from pabi.numbers.validate import answering

# What guarantees of estimators and transformers assume beside what follows from a description.


PREPROCESSING = (
    "preprocessing used no private data, or through releases that are counted here alone"
)
ONE_FIT = "every release is one fit; what other searches and refits cost has to be added"
LABELS = "the label set is public"
WEIGHTS = "class_weight is public"
MOST_WEIGHT = "max_sample_weight is public, and a record's weight depends on that record alone"
ENROLLED = "every enrolled user has a record; their number is public"
AGAIN = "this estimator, or a clone of it, was fitted before: what those fits cost is counted apart"
UNCLEAR = "the step {step!r} learnt nothing from the same data: that could not be found out"
SELECTED = "the types of columns, by which they are selected, are public"
TYPES = "whether cells are text, or numbers of one precision or another, before the step {step!r} is public"
DENSITY = (
    "whether the output of columns side by side is sparse, which its density decides, is public"
)

# Of files of before.
REPEATED = "this is one fit of several within {holder}: what the others cost has to be added"
LEARNT = "the step {step!r} learnt {learns} from the same data without privacy: what it shows is not covered"
WORKER = "steps before this fit, which a worker did, learnt nothing from the same data: they were not seen"

# What the rest of a program did with the same data, or may have done.
_ELSEWHERE = (AGAIN, REPEATED, LEARNT, UNCLEAR, WORKER)


def not_covered(assumptions: Iterable[str]) -> tuple[str, ...]:
    """Those that tell of other uses of the data, for which the guarantee does not pay, or may not."""
    return tuple(s for s in assumptions if any(_says(pattern, s) for pattern in _ELSEWHERE))


def _says(pattern: str, sentence: str) -> bool:
    """Whether a sentence has the words of a pattern before its first field and after its last."""
    return sentence.startswith(pattern.partition("{")[0]) and sentence.endswith(
        pattern.rpartition("}")[2]
    )


# What other libraries call the arguments of estimators, with what they are called here.


_PLAIN = (
    "estimators take plain steps: train a pabi.NoisySGD with update=pabi.updates.Momentum(…) by "
    "pabi.learn.train, which charges every iterate (composition)"
)
OTHER_KEYWORDS = {
    "momentum": _PLAIN,
    "nesterov": _PLAIN,
    "dampening": _PLAIN,
    "weight_decay": "write l2={}",
    "C": "write l2, which is 1/(C·n) for n records",
    "alpha": "write l2, the λ of λ‖θ‖²/2 on the mean loss",
    "lr": "write step_size={}",
    "learning_rate": "write step_size={}",
    "batch_size": "write batches=pabi.ShuffleOnce({}), or another scheme",
    "max_iter": "write epochs, passes over the data; every pass is charged",
    "data_norm": "write feature_norm={}",
    "max_grad_norm": "write clip_norm={}",
    "target_range": "labels have no range: classes is the public label set",
}

T = TypeVar("T", bound=type)

# By the word that stands for it in a docstring, on a line of its own.
SHARED = {
    "$TARGET": """\
epsilon, delta : float, > 0, delta below 1
    The target. Noise is calibrated to meet it exactly. With `noise_std` given, ε is read from
    `guarantee_` instead and `epsilon` only guides the choice of settings.
feature_norm : float, > 0, in units of the features, or "auto"
    R, public. Rows of X longer than R are scaled down to it, in fitting and in predicting. "auto" is √d for
    d columns with `feature_ranges`, so that no row is too long, and 1 without.""",
    "$TARGET_RANGE": """\
target_range : (low, high), in units of y, optional
    Public bounds of every target. Targets are clipped to them and mapped onto [−1, 1] for training;
    `coef_`, `intercept_` and predictions are in units of y all the same. The loss of `run_`, and
    `noise_std`, are in units of half the range. The guarantee assumes that the range is public.""",
    "$SETTINGS": """\
l2 : float, ≥ 0, or "auto"
    λ of the regulariser λ‖θ‖²/2 on the mean loss, intercept included. It is 1/(C·n) in scikit-learn's
    terms. "auto" is 0.
epochs, batches, step_size, cooldown_epochs : number, of `batches` a `Batches`, or "auto"
    The schedule. `step_size` may be a function of the step k, as of `NoisySGD`; the others are then chosen
    for its value at k = 0. "auto" takes as long a path as noise allows, by a rule of `pabi.learn.plans`
    that knows n, ε, δ and the declared bounds. It never looks at the data; `plan` shows what it chooses. Step
    sizes of regressors then fall to 0 in a straight line.
clip_norm : float, > 0, None or "auto"
    C: bounds the norm of each record's gradient. None: only by the loss's own bound. "auto" is half the norm
    of rows as the model sees them for `PrivateLogisticRegression`, and None for the other estimators.
clipping : str
    How. "residual": the loss is clipped convexly, by the record's residual, which leaves every proof for
    convex losses as it is. "ball": the same, but for softmax models by the norm of all K residuals: better at
    small ε, and several times the work of a step. "norm": the gradient is scaled down. With one predictor
    that is the same; with a predictor for each class it leaves composition alone, which costs nothing on full
    batches. "auto": "ball" where n·K is at most 200 000, else "residual".
precondition : float in (0, 1), None or "auto"
    The share of the budget's μ² that is spent on second moments of the rows, with which rows are made alike
    in all directions before training (docs, "Private preconditioning"). Both releases are one guarantee.
    None: no such release. "auto" is 0.1 where n, d and ε let the noise leave something to see and no
    `noise_std` is stated, and None otherwise. Of more than 4096 columns the second moments of each column
    alone are released.
adjacency : str
    "replace_one" or "zero_out".
noise_std : float, > 0, optional
    ς of the noise on the mean gradient, in place of `epsilon`.
$ROWS
verbose : bool
    Whether to show a progress bar (steps and time).
users : int or (n,) array-like, optional
    The enrolled users, where `fit` gets `groups`: how many there are, or the ids of all of them. Who has no
    row contributes nothing. None: those who have rows, and the guarantee assumes that everybody enrolled has
    one.
max_sample_weight : float, > 0, optional
    The largest weight that a row may have, public, where `fit` gets `sample_weight`. Weights are divided by
    it; a noise that is that of records of this weight hides them all.""",
    "$ROWS": """\
fit_intercept : bool
    Whether to add a feature of constant `intercept_scaling`.
intercept_scaling : float, > 0, in units of the features
    The public constant of that feature. Vectors of norm √(feature_norm² + intercept_scaling²) are then seen.
random_state : None, int or numpy Generator
    None: noise from the operating system's entropy. Anything else makes the fit reproducible, for tests
    only: the noise can then be subtracted, and the guarantee says so.
feature_ranges : (low, high), (2, d) array or dict from columns to (low, high), optional
    Public ranges. Features are clipped to them and mapped onto [−1, 1] before the norm is bounded; give
    `feature_norm` in those units.
ledger : pabi.Ledger, optional
    The budget that every fit is reserved in, before data are read. Where less is left, `fit` raises
    BudgetExceeded. Clones and worker processes share it.
strict : bool
    Whether `fit` raises an error, and does not only warn, where the estimator or a clone of it was fitted
    before. What stands before it in a pipeline `fit` cannot see: `check_pipeline` does.""",
    "$BUDGET": """\
epsilon, delta : float, > 0, delta below 1
    What `fit` may cost. Noise is calibrated to meet it; `guarantee_of` composes the steps of a pipeline, and
    `split_epsilon` shares a budget among them.""",
    "$RELEASE": """\
adjacency : str
    "replace_one" or "zero_out".
random_state : None, int or numpy Generator
    None: noise from the operating system's entropy. Anything else makes the fit reproducible, for tests
    only: the noise can then be subtracted, and the guarantee says so.
ledger : pabi.Ledger, optional
    The budget that every fit is reserved in, once, before anything is computed from the data.
strict : bool
    Whether `fit` raises an error, and does not only warn, where the transformer or a clone of it was fitted
    before. What stands before it in a pipeline `fit` cannot see: `check_pipeline` does.""",
    "$COLUMN_RANGES": """\
feature_ranges : "auto", (low, high), (2, d) array or dict from columns to (low, high)
    Ranges that are public, to which values are clipped. "auto": they are learnt first.
ranges_share : float in (0, 1)
    The share of μ² that learning the ranges takes, with "auto".""",
    "$COLUMN_RANGES_OF_IMPUTER": """\
feature_ranges : "auto", (low, high), (2, d) array or dict from columns to (low, high)
    Ranges that are public: means are those of values clipped to them, and medians are sought within. "auto":
    for means they are learnt first, and medians are sought anywhere.
ranges_share : float in (0, 1)
    The share of μ² that learning the ranges takes, for means with "auto".""",
    "$RELEASED_COLUMNS": """\
guarantee_ : Guarantee or None
    What the fit costs; None where nothing was released.
releases_ : tuple of NoisyColumnStatistics
    The releases that were accounted and executed.
n_features_in_ : int
    d, the columns of X.
feature_names_in_ : (d,) array
    Their names, where X has names.""",
    "$CLASSES": """\
classes : array-like, optional
    The public label set. None: the labels seen, and the guarantee assumes that they are public.
class_weight : dict from every class to a number > 0, optional
    Public weights of the losses of a class's records, divided by the largest. Noise is that of records of
    weight 1, so that light classes are learnt the more slowly. Probabilities are those of a world in which
    classes are as frequent as weights make them. "balanced" would count private labels and is refused.""",
    "$COEFFICIENTS_OF_CLASSES": """\
coef_ : (1, d) or (K, d) array
    The weights, in the units of X: one row for two classes, K rows for K > 2 classes.
intercept_ : (1,) or (K,) array
    The constant of each row of `coef_`.
classes_ : (K,) array
    The labels, ascending.""",
    "$COEFFICIENTS": """\
coef_ : (d,) or (K, d) array
    The weights, in the units of X; a row for each target, where there are several.
intercept_ : float or (K,) array
    The constant.""",
    "$RELEASED": """\
guarantee_ : Guarantee
    What the release of this model costs; its notes have the version, the date and the hash of the parameters.
run_ : NoisySGD
    The run that was accounted and executed.
moments_ : NoisySecondMoments or None
    The release before it, for preconditioning.
preconditioner_ : RowMap or None
    The map that followed from it. `coef_` and `intercept_` are weights of rows that are not mapped;
    predictors are their values times `preconditioner_.scales`, a number for each row.
n_iter_ : int
    Steps.
n_features_in_ : int
    d, the columns of X.
feature_names_in_ : (d,) array
    Their names, where X has names.""",
    "$WEIGHTS": """\
Weights of rows go to `fit` as `sample_weight`, with `max_sample_weight` declared: a weight multiplies
what a record contributes, so that noise is that of the largest. They must not be computed from other
records: such weights would leak.

`fit` checks the arguments. The constructor only stores them, as scikit-learn asks.""",
}

_NESTED = 2  # a shared part may hold another


def documented(cls: T) -> T:
    """`cls` with the shared parts in its docstring, so that `help` shows all parameters and attributes.

    Its constructor answers the keywords of other libraries.
    """
    text = inspect.cleandoc(cls.__doc__ or "")
    for _ in range(_NESTED):
        text = "\n".join(SHARED.get(line, line) for line in text.split("\n"))
    cls.__doc__ = text
    constructor: Any = cls.__init__  # type: ignore[misc]
    cls.__init__ = answering(OTHER_KEYWORDS)(constructor)  # type: ignore[misc]
    return cls

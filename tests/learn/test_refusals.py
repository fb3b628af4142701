"""What estimators refuse, by name, and without showing any of the data."""

import math

import numpy as np
import pytest
from scipy import sparse

from pabi import learn
from pabi.describe.batches import ShuffleOnce
from pabi.numbers.errors import TargetUnreachable
from support.estimators import ALL, CLASSIFIERS, LOG_LINKS, QUICK, REGRESSORS, problem
from support.every_case import every, refused, refuses

SECRET = 6172.25
ROWS, HALF = np.linspace(-1, 1, 40).reshape(20, 2), np.arange(20) % 2


def hidden(call, *given):
    """The refusal, which shows the secret in no notation."""
    with pytest.raises(ValueError) as caught:
        call(*given)
    assert not any(digits in str(caught.value) for digits in ("617", "6.17"))
    return caught.value


def with_cell(cell):
    X = np.column_stack([np.linspace(-1, 1, 20), np.full(20, SECRET)])
    X = X.astype(object) if isinstance(cell, str) else X
    X[3, 1] = cell
    return X


BESIDE = with_cell(SECRET)
TABLES = {
    "NaN": with_cell(np.nan),
    "infinity": with_cell(np.inf),
    "text": with_cell("x6172"),
    "overflow": np.where(BESIDE == SECRET, 6.172e200, BESIDE),
    "lengths": BESIDE[1:],
    "one-dimensional": BESIDE[:, 1],
    "one number": SECRET,
    "three-dimensional": BESIDE[:, :, None],
    "complex": BESIDE * 1j,
    "sparse NaN": sparse.csr_matrix(with_cell(np.nan)),
}


@every("kind", ALL)
@every("name", TABLES)
def test_bad_tables_are_refused_without_showing_them(kind, name):
    refusal = hidden(kind(**QUICK).fit, TABLES[name], HALF)
    assert name != "overflow" or refusal.field == "X"


FOURTH = np.arange(20) == 3


@every("kind", CLASSIFIERS)
@every(
    ("y", "declared"),
    [
        *((np.full(20, 6172), None), (np.full(20, 6172), [6172])),
        *((HALF + 6171, [0, 1]), (HALF + 6171, [6171, 7000])),
        *((np.array(["x6172", "b"] * 10), levels) for levels in ([0, 1], ["b", "c"])),
        *((np.linspace(0.1, SECRET, 20), None), (np.tile(HALF[:, None, None], (1, 2, 2)), None)),
        *((np.where(FOURTH, np.nan, 1.0), None), (np.where(FOURTH, np.nan, HALF), [0, 1])),
        *((np.array([odd, 6172] * 10, dtype=object), None) for odd in ("b", None)),
    ],
)
def test_bad_labels_are_refused_without_showing_them(kind, y, declared):
    hidden(kind(**QUICK, classes=declared).fit, ROWS, y)


def with_target(value):
    y = np.ones(20, dtype=object)
    y[5] = value
    return y if isinstance(value, str) else y.astype(float)


@every("kind", REGRESSORS)
def test_bad_targets_are_refused_without_showing_them(kind):
    bad = [with_target(value) for value in (math.nan, math.inf, "x6172")]
    for y in (*bad, np.tile(HALF[:, None, None], (1, 2, 2))):
        hidden(kind(**QUICK).fit, ROWS, y)
    if kind in LOG_LINKS:
        hidden(kind(**QUICK).fit, ROWS, with_target(-6172.0))
    else:
        assert np.all(np.isfinite(kind(**QUICK).fit(ROWS, with_target(-6172.0)).coef_))


@every("kind", ALL)
def test_data_seen_when_predicting_is_checked_and_never_shown(kind):
    model = kind(**QUICK).fit(*problem(kind))
    for wrong in ([[SECRET, math.nan, 0.0]], [["x6172", 0, 0]], [[SECRET]], [SECRET] * 3, SECRET):
        hidden(model.predict, wrong)


BAD = {
    "epsilon": (0.0, -1.0, math.nan, math.inf),
    "delta": (0.0, 1.0),
    "feature_norm": (0.0, math.inf),
    "intercept_scaling": (0.0,),
    "feature_ranges": ((1.0, -1.0), [[0, 0], [1, 1]]),
    "l2": (-0.1, "automatic"),
    "epochs": (0, 1e30),
    "step_size": (0.0,),
    "cooldown_epochs": (-1,),
    "batches": (32, "full"),
    "noise_std": (0.0, math.nan),
    "adjacency": ("add_or_remove_one",),
    "random_state": ("seed",),
}
OWN = {
    learn.PrivateLinearRegression: {"residual_bound": (0.0, math.nan)},
    learn.PrivateHuberRegressor: {"threshold": (-1.0,)},
    learn.PrivateLinearSVC: {"smoothing": (0.0,)},
    learn.PrivateRidgeClassifier: {"threshold": (0.0, "half")},
    learn.PrivatePoissonRegressor: {"predictor_bound": (math.nan, 1e4), "count_bound": (0.0,)},
    learn.PrivateLogisticRegression: {
        "clipping": ("coordinates", "residuals"),
        "multi_class": ("crammer",),
        "clip_norm": (-1.0, "half"),
        "classes": ([[1, 2], [3]], [0.5, 1.7]),
    },
}


@every("kind", ALL)
def test_bad_arguments_are_refused_by_name(kind):
    def fitted(**stated):
        return kind(**QUICK | stated).fit(*problem(kind))

    refuses(fitted, BAD | OWN.get(kind, {}))
    refused("size", fitted, batches=ShuffleOnce(100))


@every("kind", [learn.PrivateLogisticRegression, learn.PrivateLinearRegression])
def test_a_target_near_the_least_doubles_is_met(kind):
    model = kind(epsilon=1e-12, delta=1e-300, **QUICK).fit(*problem(kind))
    assert 0.0 < model.guarantee_.epsilon(1e-300) <= 1e-12


def test_a_target_that_no_noise_meets_is_refused():
    """ε and δ below what doubles resolve: an error, never a guarantee that misses."""
    kind = learn.PrivateLogisticRegression
    with pytest.raises(TargetUnreachable):
        kind(epsilon=1e-300, delta=1e-300, **QUICK).fit(*problem(kind))


OTHER_LIBRARIES = {
    "momentum": "composition",
    "weight_decay": "l2=0.5",
    "C": "1/(C·n)",
    "lr": "step_size=0.5",
    "learning_rate": "step_size=0.5",
    "batch_size": "batches=pabi.ShuffleOnce(0.5)",
    "max_grad_norm": "clip_norm",
}


@every("kind", ALL)
def test_keywords_of_other_libraries_are_answered(kind):
    for keyword, mention in OTHER_LIBRARIES.items():
        assert mention in refused(keyword, kind, **{keyword: 0.5})
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        kind(epoch=3)
    if kind in CLASSIFIERS:
        assert "classes" in refused("target_range", kind, target_range=(0, 1))

"""What scikit-learn asks of estimators and transformers, and what the help of each says."""

import inspect
import pydoc
import re
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from pabi.learn import (
    PrivateCategories,
    PrivateImputer,
    PrivateRanges,
    PrivateScaler,
    PrivateWhitener,
)
from support.estimators import ALL, CLASSIFIERS, REGRESSORS
from support.every_case import every

STEPS = [PrivateRanges, PrivateScaler, PrivateCategories, PrivateImputer, PrivateWhitener]
# Their tables have 20 to 50 rows: the noise has to be small.
STATED = {"noise_std": 1.0, "max_sample_weight": 5.0}
WHITENING = {"noise_std": 1e-3}
SMALL = {"epsilon": 1e5, "delta": 0.5}
# What scikit-learn expects of weights and privacy forbids: n is public, so that a record of weight 2 is not
# two records, and an error would show that nobody has a weight.
WEIGHTS_APART = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_all_zero_sample_weights_error",
}
# Checks of numbers, which a table of cells of any kind is not: its gaps are filled.
CELLS_APART = {"check_estimators_pickle", "check_fit_idempotent"}
PARTS = 20
BY_DAY = [
    CLASSIFIERS[0](**STATED),
    REGRESSORS[0](**STATED),
    PrivateRanges(**SMALL),
    PrivateScaler(**SMALL, feature_ranges=(-9.0, 9.0)),
    PrivateCategories(**SMALL),
    PrivateImputer(**SMALL, strategy="median"),
    PrivateWhitener(**WHITENING, fit_intercept=False),
]
AT_NIGHT = [
    *(kind(**STATED) for kind in (*CLASSIFIERS[1:], *REGRESSORS[1:])),
    *(kind(max_sample_weight=5.0) for kind in ALL),
    PrivateWhitener(**WHITENING),
    PrivateWhitener(**WHITENING, equal_norms=False),
    PrivateScaler(**SMALL),
    PrivateImputer(**SMALL),
    PrivateImputer(**SMALL, strategy="most_frequent"),
    PrivateImputer(strategy="constant", add_indicator=True),
]


def checks_of(estimator):
    """scikit-learn's own but for those that are expected to fail."""
    apart = WEIGHTS_APART if isinstance(estimator, tuple(ALL)) else set()
    if getattr(estimator, "strategy", None) in ("most_frequent", "constant"):
        apart = CELLS_APART
    for one, check in estimator_checks_generator(estimator):
        if getattr(check, "func", check).__name__ not in apart:
            yield one, check


def failures(checks):
    failed = []
    for estimator, check in checks:
        try:
            check(estimator)
        except SkipTest:
            continue
        except Exception as error:
            failed.append((check, error))
    return failed


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("estimator", BY_DAY, ids=lambda one: type(one).__name__)
def test_scikit_learn_checks(estimator, part):
    assert failures(list(checks_of(estimator))[part::PARTS]) == []


@pytest.mark.nightly
@pytest.mark.parametrize("estimator", AT_NIGHT, ids=repr)
def test_scikit_learn_checks_of_other_settings(estimator):
    assert failures(checks_of(estimator)) == []


@every("kind", ALL + STEPS)
def test_arguments_are_stored_as_given_and_cloned(kind):
    odd = {name: object() for name in inspect.signature(kind).parameters}
    assert vars(kind(**odd)) == odd
    stated = {"epsilon": 3.0, "adjacency": "zero_out"}
    assert stated.items() <= clone(kind(**stated)).get_params().items()


@every("kind", ALL + STEPS)
def test_help_lists_all_parameters_and_attributes(kind):
    text = inspect.getdoc(kind)
    sections = dict(re.findall(r"^(\w+)\n-{3,}\n(.*?)(?=^\w+\n-{3,}|\Z)", text, re.M | re.S))
    listed = {
        title: ", ".join(re.findall(r"^([\w, ]+) :", body, re.M)).split(", ")
        for title, body in sections.items()
    }
    names = list(inspect.signature(kind).parameters)
    assert sorted(listed["Parameters"]) == sorted(names)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(np.round(rng.standard_normal((2000, 2))), columns=["a", "b"])
    stated = {"linear_predictor": True} if kind in ALL else {}
    fitted = kind(epsilon=5.0, delta=1e-4, **stated).fit(table, rng.integers(0, 2, 2000))
    computed = [name for name, one in inspect.getmembers(kind) if isinstance(one, property)]
    held = [name for name in [*vars(fitted), *computed] if re.fullmatch("[^_].*_", name)]
    assert sorted(listed["Attributes"]) == sorted(held)
    assert "$" not in text
    assert all(name in pydoc.render_doc(kind, renderer=pydoc.plaintext) for name in names)
    if kind in ALL:
        assert listed["Parameters"][:3] == names[:3] == ["epsilon", "delta", "feature_norm"]

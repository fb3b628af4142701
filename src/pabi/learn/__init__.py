"""Training that executes exactly the run that was accounted.

`train` runs any differentiable model; the estimators are scikit-learn's linear models, private.
`second_moments` releases the second moments of records with noise.
Nothing but numpy is imported here: the rest loads when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pabi.execute.engine import Trained, train
from pabi.execute.large_records import LargeRecords
from pabi.execute.large_tables import LargeTable
from pabi.execute.linear_gradients import (
    LinearGradients,
    LogisticGradients,
    OneVsRestGradients,
    PoissonGradients,
    SmoothedHingeGradients,
    SoftmaxGradients,
    SquaredGradients,
    VectorHuberGradients,
)
from pabi.execute.records import Records, bound_rows, with_intercept
from pabi.execute.statistics import ReleasedMoments, second_moments

if TYPE_CHECKING:
    from pabi.execute.state_files import StateFile
    from pabi.execute.states import ForgottenRequest
    from pabi.learn.classifiers import (
        PrivateLinearSVC,
        PrivateLogisticRegression,
        PrivateRidgeClassifier,
    )
    from pabi.learn.coefficients import CoefficientTable
    from pabi.learn.guards import StepFinding, StepFindings, check_pipeline
    from pabi.learn.imputer import PrivateCategories, PrivateImputer
    from pabi.learn.pipelines import guarantee_of, model_hash, parameters_hash, parameters_hashes
    from pabi.learn.private_columns import split_epsilon
    from pabi.learn.random_features import PrivateKernelClassifier, PrivateKernelRegressor
    from pabi.learn.regressors import (
        PrivateGammaRegressor,
        PrivateHuberRegressor,
        PrivateLinearRegression,
        PrivatePoissonRegressor,
    )
    from pabi.learn.rows import id_columns
    from pabi.learn.scaler import PrivateRanges, PrivateScaler, PrivateWhitener
    from pabi.learn.schema import SchemaEncoder
    from pabi.learn.search import PrivateSearchCV

__all__ = [
    "CoefficientTable",
    "ForgottenRequest",
    "LargeRecords",
    "LargeTable",
    "LinearGradients",
    "LogisticGradients",
    "OneVsRestGradients",
    "PoissonGradients",
    "PrivateCategories",
    "PrivateGammaRegressor",
    "PrivateHuberRegressor",
    "PrivateImputer",
    "PrivateKernelClassifier",
    "PrivateKernelRegressor",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivatePoissonRegressor",
    "PrivateRanges",
    "PrivateRidgeClassifier",
    "PrivateScaler",
    "PrivateSearchCV",
    "PrivateWhitener",
    "Records",
    "ReleasedMoments",
    "SchemaEncoder",
    "SmoothedHingeGradients",
    "SoftmaxGradients",
    "SquaredGradients",
    "StateFile",
    "StepFinding",
    "StepFindings",
    "Trained",
    "VectorHuberGradients",
    "bound_rows",
    "check_pipeline",
    "guarantee_of",
    "id_columns",
    "model_hash",
    "parameters_hash",
    "parameters_hashes",
    "second_moments",
    "split_epsilon",
    "train",
    "with_intercept",
]

# scikit-learn takes a second to import.
_LAZY = {
    "CoefficientTable": "pabi.learn.coefficients",
    "ForgottenRequest": "pabi.learn.forgetting",
    "StateFile": "pabi.learn.forgetting",
    "StepFinding": "pabi.learn.guards",
    "StepFindings": "pabi.learn.guards",
    "PrivateCategories": "pabi.learn.imputer",
    "PrivateImputer": "pabi.learn.imputer",
    "PrivateRanges": "pabi.learn.scaler",
    "PrivateScaler": "pabi.learn.scaler",
    "split_epsilon": "pabi.learn.private_columns",
    "PrivateGammaRegressor": "pabi.learn.regressors",
    "PrivateHuberRegressor": "pabi.learn.regressors",
    "PrivateKernelClassifier": "pabi.learn.random_features",
    "PrivateKernelRegressor": "pabi.learn.random_features",
    "PrivateLinearRegression": "pabi.learn.regressors",
    "PrivateLinearSVC": "pabi.learn.classifiers",
    "PrivateLogisticRegression": "pabi.learn.classifiers",
    "PrivatePoissonRegressor": "pabi.learn.regressors",
    "PrivateRidgeClassifier": "pabi.learn.classifiers",
    "PrivateSearchCV": "pabi.learn.search",
    "PrivateWhitener": "pabi.learn.scaler",
    "check_pipeline": "pabi.learn.guards",
    "guarantee_of": "pabi.learn.pipelines",
    "id_columns": "pabi.learn.rows",
    "model_hash": "pabi.learn.pipelines",
    "parameters_hash": "pabi.learn.pipelines",
    "parameters_hashes": "pabi.learn.pipelines",
    "SchemaEncoder": "pabi.learn.schema",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pabi.learn' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

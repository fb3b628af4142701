"""The run that is trained, and the release before it, are accounted once, whoever trains and calibrates."""

import numpy as np
import pytest

import pabi
from pabi import learn
from pabi.account import best, calibration
from pabi.execute.linear_gradients import LogisticGradients
from support.every_case import every
from support.frameworks import framework

DELTA = 1e-5
RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = (X[:, 0] > 0.0).astype(int)


def described(loss):
    return pabi.NoisySGD(loss, 300, pabi.Cyclic(30), 3, step_size=0.5, noise_std=0.5, clip_norm=0.4)


def estimator(kind, ledger, **stated):
    return kind(1.0, DELTA, 1.0, adjacency="zero_out", ledger=ledger, **stated).fit(X, Y)


def searched(ledger):  # one release: what settings have in common is planned for each
    estimator = learn.PrivateLogisticRegression(classes=[0, 1], adjacency="zero_out")
    settings = {"clip_norm": [0.1, 0.5], "precondition": [None]}
    given = {"epsilon": 1.0, "delta": DELTA, "mean_trials": 3.0, "shape": 1.0}
    search = learn.PrivateSearchCV(estimator, settings, **given)
    return search.fit(X, Y, X_public=X[:50], y_public=Y[:50]).best_estimator_


def trained(ledger):
    run = described(pabi.Loss.logistic(1.0))
    return learn.train(run, LogisticGradients(learn.Records(X, 1.0), Y), np.zeros(3), ledger=ledger)


def by_torch(ledger, known, **options):
    torch = framework("torch")
    module = pytest.importorskip("pabi.integrations.torch")
    rows, labels = torch.as_tensor(X), torch.as_tensor(Y, dtype=torch.float64)
    data = torch.utils.data.TensorDataset(rows, labels)
    layer = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
    layers = layer if known.glm else torch.nn.Sequential(layer)
    return module.train(layers, data, described(known), ledger=ledger, **options)


def by_jax(ledger):
    jax = framework("jax")
    from pabi.integrations.jax import train

    def loss(x, example):
        return jax.numpy.logaddexp(0.0, example[0] @ x) - example[1] * (example[0] @ x)

    return train(np.zeros(3), loss, (X, Y), described(pabi.Loss.logistic(1.0)), ledger=ledger)


WAYS = {
    "classifier": lambda ledger: estimator(learn.PrivateLogisticRegression, ledger),
    "noise": lambda ledger: estimator(learn.PrivateLinearSVC, ledger, noise_std=0.1),
    "search": searched,
    "train": trained,
    "head": lambda ledger: by_torch(ledger, pabi.Loss.logistic(1.0)),
    "network": lambda ledger: by_torch(
        ledger, pabi.Loss.unknown(), loss=lambda out, y: (out[:, 0] - y) ** 2
    ),
    "jax": by_jax,
}


@pytest.mark.filterwarnings("ignore")
@every("charged", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_trained_is_accounted_once(monkeypatch, tmp_path, way, charged):
    asked, answer = [], best.outcomes

    def counted(description, delta, position=None, only=None):
        asked.extend([description] if only is None else [])
        return answer(description, delta, position, only)

    for module in (best, calibration):
        monkeypatch.setattr(module, "outcomes", counted)
    ledger = pabi.Ledger(tmp_path / f"{charged}.ledger", 8.0, DELTA) if charged else None
    result = WAYS[way](ledger)
    finals = [getattr(result, "run_", None) or result.run, getattr(result, "moments_", None)]
    assert all(asked.count(one) == 1 for one in finals if one is not None)

"""With hardly any noise models end at the optimum, and training would stop at their probabilities."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax

from pabi.describe.batches import FullBatch
from pabi.describe.vector_losses import OneVsRest
from pabi.execute.records import Records
from pabi.execute.sources import Parts
from pabi.execute.sums import Limit
from pabi.learn import (
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidgeClassifier,
)
from support.estimators import QUICK, problem, within
from support.every_case import every

# The optimum. With hardly any noise, gradient descent ends at the minimiser of the objective that the
# documentation states; scipy minimises it independently.

L2, NOISE = 0.05, 1e-6
LONG = {"batches": FullBatch(), "l2": L2, "noise_std": NOISE}


def converged(kind, step_size, **changes):
    """Enough steps to forget the start: (1 − ηλ)^steps below 10⁻⁹ of it."""
    steps = math.ceil(math.log(1e-9) / math.log1p(-step_size * L2))
    return kind(**LONG, step_size=step_size, epochs=steps, **changes)


def tolerance(step_size, d=4):
    """Ten standard deviations of the last iterate about the optimum, at most ης/√(1 − (1 − ηλ)²) a
    coordinate, and what is left of the start and of scipy's gradient tolerance."""
    kept = 1.0 - step_size * L2
    return 10.0 * step_size * NOISE / math.sqrt(1.0 - kept**2) * math.sqrt(d) + 1e-6


def minimiser(loss, X, y, outputs=1, scaling=1.0):
    """θ of least mean loss plus ℓ2 on bounded rows with the constant feature."""
    rows = np.column_stack([within(X), np.full(len(X), scaling)])

    def objective(flat):
        theta = flat.reshape(rows.shape[1], outputs)
        return np.mean(loss(rows @ theta, y)) + 0.5 * L2 * np.sum(flat**2)

    def gradient(flat):
        h = 1e-6
        steps = np.eye(len(flat)) * h
        return np.array([(objective(flat + e) - objective(flat - e)) / (2 * h) for e in steps])

    start = np.zeros(rows.shape[1] * outputs)
    # An error g of the gradient moves a λ-strongly convex minimiser by g/λ: 10⁻⁸/λ is below 10⁻⁶.
    found = minimize(objective, start, jac=gradient, method="BFGS", options={"gtol": 1e-8})
    assert np.max(np.abs(gradient(found.x))) < 2e-8
    return found.x.reshape(rows.shape[1], outputs)


def binary(z, y):
    return np.logaddexp(0.0, -np.where(y == 1, 1, -1) * z[:, 0])


def multinomial(z, y):
    return -log_softmax(z, axis=1)[np.arange(len(y)), y]


def one_against_rest(z, y):
    return np.logaddexp(0.0, -np.where(y[:, None] == np.arange(z.shape[1]), 1, -1) * z).sum(axis=1)


def huber(bound):
    def loss(z, y):
        r = np.abs(z[:, 0] - y)
        return np.where(r <= bound, r**2 / 2, bound * r - bound**2 / 2)

    return loss


def indicators(bound):
    """The vector Huber loss of z − e_y, or of z − (±1/2) for two classes."""

    def loss(z, y):
        target = y[:, None] - 0.5 if z.shape[1] == 1 else np.eye(z.shape[1])[y]
        r = np.linalg.norm(z - target, axis=1)
        return np.where(r <= bound, r**2 / 2, bound * r - bound**2 / 2)

    return loss


def hinge(gamma):
    def loss(z, y):
        sign = np.where(y == 1, 1, -1)[:, None] if z.shape[1] == 1 else None
        if sign is None:
            sign = np.where(y[:, None] == np.arange(z.shape[1]), 1, -1)
        short = np.maximum(0.0, 1.0 - sign * z)
        return np.where(short <= gamma, short**2 / (2 * gamma), short - gamma / 2).sum(axis=1)

    return loss


def gamma(bound):
    def loss(z, y):
        z = z[:, 0]
        with np.errstate(divide="ignore"):
            turn = np.log(y / (1 + bound))
        inner = np.maximum(z, turn)
        return inner + y * np.exp(-inner) + bound * np.maximum(0.0, turn - z)

    return loss


def poisson(most, cap):
    def loss(z, y):
        z, y = z[:, 0], np.minimum(y, cap)
        low = np.minimum(z, most)
        return np.exp(low) * (1 + np.maximum(0.0, z - most)) - y * z

    return loss


OPTIMA = {
    "logistic": (PrivateLogisticRegression, {"clip_norm": None}, binary, 2, 1.5),
    "softmax": (PrivateLogisticRegression, {"clip_norm": None}, multinomial, 3, 0.8),
    "ovr": (
        *(PrivateLogisticRegression, {"clip_norm": None, "multi_class": "ovr"}, one_against_rest),
        *(3, 1.5),
    ),
    "svc": (PrivateLinearSVC, {"smoothing": 0.5}, hinge(0.5), 2, 0.2),
    "svc, classes": (PrivateLinearSVC, {"smoothing": 0.5}, hinge(0.5), 3, 0.2),
    "ridge": (PrivateRidgeClassifier, {"threshold": 0.4}, indicators(0.4), 2, 0.4),
    "ridge, classes": (PrivateRidgeClassifier, {}, indicators(0.5), 3, 0.4),
    "least squares": (PrivateLinearRegression, {"residual_bound": 20.0}, huber(20.0), 2, 0.4),
    "residuals clipped": (PrivateLinearRegression, {"residual_bound": 0.4}, huber(0.4), 2, 0.4),
    "huber": (PrivateHuberRegressor, {"threshold": 0.3}, huber(0.3), 2, 0.4),
    "poisson": (
        *(PrivatePoissonRegressor, {"predictor_bound": 0.5, "count_bound": 3.0}, poisson(0.5, 3.0)),
        *(2, 0.3),
    ),
    "gamma": (PrivateGammaRegressor, {"residual_bound": 1.5}, gamma(1.5), 2, 0.3),
}


@pytest.mark.parametrize("name", OPTIMA)
def test_little_noise_ends_at_the_optimum(name):
    kind, changes, loss, classes, step_size = OPTIMA[name]
    X, y = problem(kind, classes=classes)
    outputs = classes if classes > 2 else 1
    theta = minimiser(loss, X, y, outputs)
    model = converged(kind, step_size, **changes).fit(X, y)
    found = np.vstack([np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)])
    assert np.linalg.norm(found - theta) < tolerance(step_size, theta.size)
    assert np.linalg.norm(theta) > 0.1


def test_intercept_scaling_weakens_its_regularisation():
    """A constant κ lets the intercept be κθ: it is penalised by 1/κ², as in scikit-learn's liblinear."""
    X, y = problem(PrivateLogisticRegression)
    theta = minimiser(binary, X, y, scaling=2.0)
    given = {"clip_norm": None, "intercept_scaling": 2.0}
    model = converged(PrivateLogisticRegression, 0.5, **given).fit(X, y)
    found = np.array([*model.coef_[0], model.intercept_[0] / 2.0])
    assert np.linalg.norm(found - theta[:, 0]) < tolerance(0.5)


def clipped_loss(c):
    """The function of z that falls with slope min(σ(−z), c): what clipping residuals to c minimises."""
    knee = math.log((1 - c) / c) if c < 1 else -math.inf  # where σ(−z) = c

    def loss(z):
        z = np.asarray(z, dtype=float)
        at = np.maximum(z, knee)
        return np.logaddexp(0.0, -at) + np.where(z < knee, c * (knee - z), 0.0)

    return loss


@every("share", [0.15, 0.3, 0.6, 2.0])
def test_clipped_training_ends_at_the_clipped_optimum(share):
    """Gradients clipped to `share` of their bound: the sum of the clipped losses is minimised."""
    X, y = problem(PrivateLogisticRegression)
    bound = math.sqrt(2.0)
    rows = np.column_stack([within(X), np.ones(len(X))])
    caps = share * bound / np.linalg.norm(rows, axis=1)

    def loss(z, labels):
        margins = np.where(labels == 1, 1, -1) * z[:, 0]
        each = zip(caps, margins, strict=True)
        return np.array([clipped_loss(min(c, 1.0))(m) for c, m in each])

    theta = minimiser(loss, X, y)
    model = converged(PrivateLogisticRegression, 1.5, clip_norm=share * bound).fit(X, y)
    assert (model.run_.clip_norm is not None) == (share < 1.0)
    found = np.array([*model.coef_[0], *model.intercept_])
    assert np.linalg.norm(found - theta[:, 0]) < tolerance(1.5)


@every("share", [0.2, 0.35, 0.6, 0.9])
def test_clipped_probabilities_invert_the_clipped_optimum(share):
    """Where labels are 1 with probability p, the z that minimises the expected clipped loss has it."""
    X, y = problem(PrivateLogisticRegression)
    given = {"noise_std": 0.5, "clip_norm": share * math.sqrt(2.0)}
    model = PrivateLogisticRegression(**QUICK, **given).fit(X, y)
    # A model whose predictor is 1000·x₀, so that z is anything while rows stay short.
    model.coef_, model.intercept_ = np.array([[1e3, 0.0, 0.0]]), np.array([0.0])
    for p in (0.02, 0.2, 0.45, 0.55, 0.9):
        c = model.run_.clip_norm  # ‖(x, 1)‖ is 1 to 10⁻⁴ here
        loss = clipped_loss(min(c, 1.0))
        z = minimize_scalar(
            lambda z, p=p, loss=loss: p * loss(z) + (1 - p) * loss(-z),
            bounds=(-20, 20),
            method="bounded",
            options={"xatol": 1e-9},
        ).x
        got = model.predict_proba([[z / 1e3, 0.0, 0.0]])[0]
        # The minimum of a function known to 2⁻⁵³ is found to about 2⁻²⁶·√(curvature), a few 10⁻⁷ here, and
        # the row's norm, √(1 + 10⁻⁶z²) with |z| < 5, moves c by a relative 10⁻⁵.
        assert got[1] == pytest.approx(p, abs=1e-4)
        assert got.sum() == pytest.approx(1.0, rel=1e-15)


PROBABILISTIC = {
    "logistic": (PrivateLogisticRegression, {}),
    "ovr": (PrivateLogisticRegression, {"multi_class": "ovr"}),
    "ridge": (PrivateRidgeClassifier, {}),
}


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("name", PROBABILISTIC)
@every(
    "changes",
    [
        *({}, {"clip_norm": None}, {"clip_norm": 0.2}),
        *({"clip_norm": 0.2, "clipping": "residual"}, {"clip_norm": 0.2, "clipping": "norm"}),
    ],
)
@every("size", [1.0, 1e3])
def test_probabilities_sum_to_one_and_agree_with_predictions(name, classes, changes, size):
    """The predicted class has the largest probability; where predictors say nothing several may."""
    kind, own = PROBABILISTIC[name]
    X, y = problem(kind, classes=classes)
    model = kind(**QUICK, **changes, **own).fit(X, y)
    model.coef_ = model.coef_ * size
    probabilities, predicted = model.predict_proba(X), model.predict(X)
    assert probabilities.shape == (60, classes)
    assert np.all(probabilities >= 0.0)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(60), rel=1e-14)
    largest = probabilities.max(axis=1)
    assert np.array_equal(probabilities[np.arange(60), predicted], largest)
    informed = np.sum(probabilities == largest[:, None], axis=1) == 1
    assert np.array_equal(probabilities.argmax(axis=1)[informed], predicted[informed])
    assert np.any(informed)
    # Weakly, clipping keeps the order of all classes. Those of a ball are sums of products with 1 − q, which
    # is rounded to the spacing of doubles at 1; the others have no such sums.
    rounding = 16.0 * np.finfo(float).eps if model.run_.clipping == "ball" else 0.0
    scores = model.decision_function(X)
    scores = np.column_stack([-scores, scores]) if classes == 2 else scores
    for i, j in itertools.permutations(range(classes), 2):
        above = scores[:, i] >= scores[:, j]
        assert np.all(probabilities[above, i] >= probabilities[above, j] * (1.0 - 1e-13) - rounding)


def test_probabilities_that_are_all_too_small_for_doubles_still_sum_to_one():
    z = np.array(
        [[-700.0, -701.0, -2e3], [-1e3, -1e3, -1e3], [-1e5, -1e300, -1e5], [0.0, -1e3, -1e3]]
    )
    e = math.exp(-1.0)
    wanted = np.array([[1.0, e, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    wanted /= wanted.sum(axis=1, keepdims=True)
    for most in (None, np.full((4, 1), 0.2)):
        given = OneVsRest(3).probabilities(z.copy(), most)
        np.testing.assert_allclose(given, wanted, rtol=1e-12, atol=1e-300)


@every("name", PROBABILISTIC)
@every("classes", [2, 3])
def test_a_row_of_zeros_has_probabilities(name, classes):
    """Its gradient is 0, so that nothing of it is clipped."""
    kind, own = PROBABILISTIC[name]
    X, y = problem(kind, classes=classes)
    model = kind(**QUICK, clip_norm=0.2, fit_intercept=False, **own).fit(X, y)
    probabilities = model.predict_proba(np.zeros((1, 3)))
    assert probabilities[0] == pytest.approx(np.full(classes, 1.0 / classes), abs=1e-8)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateRidgeClassifier])
@every("clipping", ["residual", "ball"])
@every("clip_norm", [0.1, 0.3, 0.6])
def test_at_the_probabilities_the_expected_gradient_vanishes(kind, classes, clip_norm, clipping):
    """Of labels drawn from them, as the trainer clips it: where training on such labels would stop."""
    X, y = problem(kind, classes=classes)
    model = kind(**QUICK, clip_norm=clip_norm, clipping=clipping, fit_intercept=False).fit(X, y)
    rng = np.random.default_rng(3)
    rows = within(X)[:12]
    if kind is PrivateRidgeClassifier:
        # Predictors on the simplex, as probabilities are; two classes have one, the second less a half.
        shares = rng.dirichlet(np.ones(classes), len(rows))
        scores = shares[:, 1:] - 0.5 if classes == 2 else shares
    else:
        scores = rng.normal(size=(len(rows), 1 if classes == 2 else classes)) * 1.5
    for row, score in zip(rows, scores, strict=True):
        theta = np.outer(row / (row @ row), score)  # whose predictor at the row it is
        model.coef_ = theta.T
        probabilities = model.predict_proba(row[None])[0]
        records = Records(np.tile(row, (classes, 1)), 1.0)
        gradients = model._gradients(records, Parts.of(np.arange(classes)), model.run_.loss)
        limit = Limit(None, 1.0, residual=clip_norm, in_ball=clipping == "ball")
        at = theta if classes > 2 else theta[:, 0]
        each = [gradients.clipped_sum(at, slice(k, k + 1), limit) for k in range(classes)]
        expected = sum(p * g for p, g in zip(probabilities, each, strict=True))
        # Up to the 10⁻⁹ of the unclipped probabilities that keeps ties apart.
        assert np.linalg.norm(expected) <= 3e-9
        assert max(map(np.linalg.norm, each)) <= clip_norm * (1.0 + 1e-12)

"""Coefficients in the units of the columns: with the switch they predict; the noise in them."""

import json
import math
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import pabi
from pabi import learn
from pabi.learn import forgetting
from pabi.learn.coefficients import RowLaw, nearest_logits, noise_variances, table_of
from pabi.learn.plans import whitening
from pabi.numbers.errors import InvalidInput
from support.computed_once import computed_once
from support.estimators import LINEAR, LOG_LINKS, REGRESSORS
from support.every_case import every, refused
from support.forgetting import DELTA, TARGET, that_forgets
from support.forgetting import X as F
from support.forgetting import Y as G

RANGES = np.array([[-2.0, 96.0, 5.0], [2.0, 104.0, 5.5]])
QUICK = {"batches": pabi.FullBatch(), "epochs": 3, "step_size": 0.5, "noise_std": 0.05}
QUICK |= {"feature_ranges": RANGES, "linear_predictor": True}
BUDGET = {"epsilon": 20.0, "delta": 1e-4}


def table(n=400, classes=2, seed=0):
    """(X, y, numbers): rows within ranges and some beyond; labels and numbers follow them."""
    rng = np.random.default_rng(seed)
    half = np.diff(RANGES, axis=0) / 2
    X = RANGES.mean(axis=0) + half * rng.uniform(-1.2, 1.2, (n, 3))
    signal = ((np.clip(X, *RANGES) - RANGES.mean(axis=0)) / half) @ [1, -0.5, 0.5]
    signal += 0.1 * rng.normal(size=n)
    return X, np.digitize(signal, np.quantile(signal, np.arange(1, classes) / classes)), signal


def linear(model, X):
    """(m, K) predictors of rows cut to their ranges."""
    return np.clip(X, *RANGES) @ np.atleast_2d(model.coef_).T + np.atleast_1d(model.intercept_)


def probabilities(model, X):
    z = linear(model, X)
    if z.shape[1] == 1:
        return np.column_stack([expit(-z), expit(z)])
    each = expit(z) if model.multi_class == "ovr" else softmax(z, axis=1)
    return each / each.sum(axis=1, keepdims=True)


CLIPS = [
    {},
    {"clip_norm": None},
    *({"clip_norm": 0.2, "clipping": c} for c in ("residual", "norm")),
]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["auto", "ovr"])
@every("precondition", [None, 0.3])
@every("intercept", [True, False])
@every("clip", CLIPS)
def test_probabilities_are_those_of_the_coefficients(
    classes, multi_class, precondition, intercept, clip
):
    X, y, _ = table(classes=classes)
    own = {"multi_class": multi_class, "precondition": precondition, "fit_intercept": intercept}
    model = learn.PrivateLogisticRegression(**BUDGET, **QUICK, **clip, **own).fit(X, y)
    assert (model.preconditioner_ is None) == (precondition is None)
    assert np.max(np.abs(model.predict_proba(X) - probabilities(model, X))) < 1e-12
    assert np.array_equal(model.predict(X), probabilities(model, X).argmax(axis=1))


@pytest.mark.parametrize("kind", [kind for kind in LINEAR if kind in REGRESSORS])
@every("precondition", [None, 0.3])
@every("intercept", [True, False])
def test_predictions_are_those_of_the_coefficients(kind, precondition, intercept):
    """Also of rows whose image is longer than the norm, which training saw scaled down."""
    X, _, numbers = table()
    X[:3] = RANGES[1] - [0.0, 8.0, 0.0]
    counts, own = kind in LOG_LINKS, {"precondition": precondition, "fit_intercept": intercept}
    own["target_range"] = (0, 9) if counts else (-3, 3)
    model = kind(**BUDGET, **QUICK, **own).fit(X, np.round(np.exp(numbers)) if counts else numbers)
    expected = linear(model, X)[:, 0]
    expected = np.exp(expected) if counts else expected
    assert np.max(np.abs(model.predict(X) - expected)) < 1e-12 * (1.0 + np.max(np.abs(expected)))
    if kind is learn.PrivateLinearRegression:
        model = kind(**BUDGET, **QUICK, **own).fit(X, np.column_stack([numbers, -numbers]))
        assert np.max(np.abs(model.predict(X) - linear(model, X))) < 1e-12
        assert model.coef_std_.shape == (2, 3)


@pytest.mark.parametrize("kind", [learn.PrivateLinearSVC, learn.PrivateRidgeClassifier])
@every("precondition", [None, 0.3])
def test_other_classifiers_have_linear_predictors_too(kind, precondition):
    X, y, _ = table()
    model = kind(**BUDGET, **QUICK, clip_norm=0.2, precondition=precondition).fit(X, y)
    decisions = model.decision_function(X)
    assert np.max(np.abs(decisions - linear(model, X)[:, 0])) < 1e-12
    if kind is learn.PrivateRidgeClassifier:
        # A function of these alone, whatever the row's norm: it rises, but for one rounding of a quotient.
        assert np.all(np.diff(model.predict_proba(X)[np.argsort(decisions), 1]) >= -(2.0**-52))


# The linear logit nearest to a clipped one.


@every("classes", [2, 3, 5])
@every("shifted", [True, False])
def test_a_linear_logit_is_nearest_to_itself(classes, shifted):
    rng = np.random.default_rng(classes)
    points = 2.0 * rng.normal(size=(300, classes))
    shift = rng.normal(size=classes) * shifted
    a, b = nearest_logits(points, softmax(0.7 * points + shift, axis=1), shifted=shifted)
    assert a == pytest.approx(0.7, abs=1e-4)
    assert b == pytest.approx(shift - shift.mean(), abs=1e-4)
    # Predictors that tell nothing are left as they are.
    nothing, even = np.zeros((50, classes)), np.full((50, classes), 1.0 / classes)
    a, b = nearest_logits(nothing, even, shifted=shifted)
    assert (a, b.tolist()) == (1.0, [0.0] * classes)


def test_coefficients_are_those_of_the_likelihood_though_losses_were_clipped():
    """With hardly any noise, of labels that follow a logistic model."""
    rng, n = np.random.default_rng(1), 1000
    half = np.diff(RANGES, axis=0)[0] / 2.0
    seen = rng.uniform(-1, 1, (n, 3))
    X = RANGES.mean(axis=0) + half * seen
    y = (rng.uniform(size=n) < expit(seen @ [1.6, -1.6, 0.8])).astype(int)
    settings = {"batches": pabi.FullBatch(), "epochs": 600, "step_size": 1.0, "noise_std": 1e-6}
    settings["clip_norm"] = 0.5**0.5  # that of small budgets
    model = learn.PrivateLogisticRegression(
        1e6, 1e-3, feature_ranges=RANGES, precondition=0.3, linear_predictor=True, **settings
    ).fit(X, y)
    plain = LogisticRegression(C=1e9).fit(seen, y).coef_[0] / half
    # The nearest linear logit is not the very one; what was trained is steeper by a fifth or more.
    assert np.all(np.abs(model.coef_[0] / plain - 1.0) < 0.08)
    assert np.all(model.coef_[0] / model.link_[0] / plain > 1.2)


# What noise is in them.


def run_of(step_size, noise_std, *, l2, cooldown_steps=0, steps=12):
    return pabi.NoisySGD(
        pabi.Loss.squared(feature_norm=1.0, residual_bound=1.0, l2=l2),
        n=10,
        batches=pabi.FullBatch(),
        epochs=steps - cooldown_steps,
        step_size=step_size,
        noise_std=noise_std,
        cooldown_steps=cooldown_steps,
    )


@every("l2", [0.0, 0.3])
@every("cooldown_steps", [0, 4])
def test_variances_follow_the_recursion(l2, cooldown_steps):
    falling = np.repeat(np.random.default_rng(0).uniform(0.1, 0.9, 6), 2)
    for step_size in (0.4, falling):
        run = run_of(step_size, 0.3, l2=l2, cooldown_steps=cooldown_steps)
        curvatures = np.array([[0.0, 1e-9], [0.2, 1.0]])
        wanted = np.zeros((2, 2))
        for k, eta in enumerate(np.broadcast_to(step_size, 12)):
            h = curvatures * (k < 12 - cooldown_steps) + l2
            wanted = (1.0 - eta * h) ** 2 * wanted + (eta * 0.3) ** 2
        np.testing.assert_allclose(noise_variances(run, curvatures), wanted, rtol=1e-9)


FITS = 50
REPEATED = {"epochs": 20, "noise_std": 0.02, "batches": pabi.FullBatch(), "step_size": 0.5}
REPEATED |= {"feature_ranges": RANGES, "epsilon": 1e6, "delta": 1e-3, "precondition": 0.2}
PUBLIC = {"target_range": (-9, 9)}
REPEATS = {
    "squares": (learn.PrivateLinearRegression, PUBLIC),
    "squares, linear": (learn.PrivateLinearRegression, PUBLIC | {"linear_predictor": True}),
    # Labels without a signal: the curvature is what it is at the start.
    "labels": (learn.PrivateLogisticRegression, {"clip_norm": None, "linear_predictor": True}),
    "not preconditioned": (learn.PrivateLinearRegression, PUBLIC | {"precondition": None}),
    "clipped": (learn.PrivateHuberRegressor, PUBLIC | {"threshold": 0.05}),
    "margins": (learn.PrivateLinearSVC, {"linear_predictor": True}),
    "one norm": (learn.PrivateLogisticRegression, {"linear_predictor": False}),
}


@cache
def repeated(name):
    """(coefficients, their stated deviations, whether these are estimates) of fits to the same records."""
    X, _, numbers = table(n=60)
    kind, settings = REPEATS[name]
    labels = kind in (learn.PrivateLogisticRegression, learn.PrivateLinearSVC)
    model = kind(**(REPEATED | settings), **({"classes": [0, 1]} if labels else {}))
    found, stated = [], []
    with pytest.MonkeyPatch.context() as patched:
        computed_once(patched)
        for _ in range(FITS):
            model.fit(X, np.arange(60) // 2 % 2 if labels else numbers)
            summary = model.summary()
            found.append([row["coefficient"] for row in summary.rows])
            stated.append([row["std"] for row in summary.rows])
    return np.array(found), np.array(stated), summary.estimated


@pytest.mark.parametrize("name", ["squares", "squares, linear", "labels"])
def test_stated_deviations_are_those_of_repeated_fits(name):
    found, stated, estimated = repeated(name)
    assert estimated
    ratio = np.std(found, axis=0, ddof=1) / np.mean(stated, axis=0)
    # A standard deviation of m draws is known to 1/√(2m); the curvature of labels to a twentieth.
    known = 4.0 / math.sqrt(2.0 * FITS) + 0.05 * (name == "labels")
    assert np.all(np.abs(ratio - 1.0) < known)


@pytest.mark.parametrize("name", ["not preconditioned", "clipped", "margins", "one norm"])
def test_where_curvature_is_not_known_deviations_are_the_most_there_can_be(name):
    found, stated, estimated = repeated(name)
    assert not estimated
    ratio = np.std(found, axis=0, ddof=1) / np.mean(stated, axis=0)
    assert np.all(ratio < 1.0 + 4.0 / math.sqrt(2.0 * FITS))
    if name == "clipped":  # hardly any noise is damped
        assert np.all(ratio > 0.5)
    if name == "not preconditioned":  # every step adds its noise, and nothing takes it away
        half = np.diff(RANGES, axis=0)[0] / 2.0
        falling = np.linalg.norm(np.full(20, 0.5)) * 0.02
        np.testing.assert_allclose(stated[0][:3], falling * 9.0 / half, rtol=1e-9)


def test_deviations_follow_from_what_is_released():
    """From the attributes of the fitted model alone, in another object that saw no data."""
    X, y, _ = table()
    model = learn.PrivateLogisticRegression(**BUDGET, **QUICK, precondition=0.3).fit(X, y)
    released = ("coef_", "intercept_", "link_", "run_", "moments_", "preconditioner_", "classes_")
    bare = learn.PrivateLogisticRegression(**model.get_params())
    for name in (*released, "n_features_in_"):
        setattr(bare, name, getattr(model, name))
    assert np.array_equal(bare.coef_std_, model.coef_std_)
    assert np.array_equal(bare.intercept_std_, model.intercept_std_)
    assert str(bare.summary()) == str(model.summary())


def test_second_moments_are_read_off_every_map():
    """Of a map of equal norms, of one that keeps proportions, and of one that does so without bias."""
    square = np.random.default_rng(4).normal(size=(1000, 4)) * [0.8, 0.3, 0.1, 0.02]
    square = square.T @ square
    for diagonal, noise_std in product((False, True), (1e-3, 30.0, 3000.0)):
        moments = pabi.NoisySecondMoments(1000, 4, 2.0, noise_std=noise_std, diagonal=diagonal)
        values = np.diag(square) if diagonal else square
        for equal, unbiased in ((True, False), (False, False), (False, True)):
            row_map = whitening(values, moments, norm=1.0, equal=equal, unbiased=unbiased)
            law = RowLaw.of_map(row_map, moments, None)
            np.testing.assert_allclose(law.second, values / 1000, rtol=0.0, atol=1e-8)


# The table.


@every(
    ("facts", "words"),
    [
        ((0.95, True, ""), ("as the private second moments tell", " are within")),
        ((0.95, False, "A note."), ("the most it can do", " may be within")),
    ],
)
def test_a_summary_says_which_coefficients_are_noise(facts, words):
    values, stds = np.array([[2.0, 0.5]]), np.array([[0.5, 0.3]])
    summary = table_of(facts, [None], ["age", "intercept"], values=values, stds=stds)
    age, intercept = summary.rows
    assert (age["within_noise"], intercept["within_noise"]) == (False, True)
    bounds = (2.0 - 0.979982, 2.0 + 0.979982)
    assert (age["low"], age["high"]) == pytest.approx(bounds, abs=1e-5)
    first, second, third, noise, hidden, *note = str(summary).split("\n")
    assert first.split() == ["coefficient", "std", "low", "high"]
    assert second.split()[:3] == ["age", "2", "0.5"]
    assert third.endswith("within the noise")
    assert "95 %" in noise
    assert words[0] in noise
    assert hidden.startswith(f"1 of 2 coefficients{words[1]} the noise")
    assert note == [line for line in (facts[2],) if line]
    assert json.loads(json.dumps(summary.to_dict()))["rows"][0] == age


def test_a_summary_names_classes_and_columns():
    X, y, _ = table(classes=3)
    names = np.array(["red", "green", "blue"])[y]
    model = learn.PrivateLogisticRegression(**BUDGET, **QUICK).fit(X, names)
    rows = model.summary(0.8).to_dict()["rows"]
    assert [row["output"] for row in rows[::4]] == ["blue", "green", "red"]
    assert [row["column"] for row in rows[:4]] == ["x0", "x1", "x2", "intercept"]
    for k in range(3):
        assert [row["coefficient"] for row in rows[4 * k : 4 * k + 3]] == model.coef_[k].tolist()
        assert rows[4 * k + 3]["std"] == model.intercept_std_[k]
    named = model.summary(columns=np.array(["a", "b", "c"])).rows
    assert [row["column"] for row in named[:4]] == ["a", "b", "c", "intercept"]


SCALED, NO_MAP = "every row is scaled to one norm", {"precondition": None}
TOLD = [
    (learn.PrivateLogisticRegression, {}, ""),  # this budget is no limit
    (learn.PrivateLogisticRegression, {"linear_predictor": False}, SCALED),
    (learn.PrivateLogisticRegression, NO_MAP, "another link"),
    (learn.PrivateLogisticRegression, NO_MAP | {"clip_norm": None}, ""),
    (learn.PrivateLogisticRegression, {"linear_predictor": True}, ""),
    (learn.PrivateLinearSVC, {}, SCALED),
    (learn.PrivateLinearSVC, NO_MAP, ""),
    (learn.PrivateRidgeClassifier, {"linear_predictor": True}, ""),
    (learn.PrivateLinearRegression, {}, "too long, which are shortened"),
    (learn.PrivateLinearRegression, NO_MAP, ""),
    (learn.PrivatePoissonRegressor, {"linear_predictor": True}, ""),
]


@pytest.mark.parametrize(("kind", "settings", "words"), TOLD)
def test_a_summary_tells_where_more_than_coefficients_predicts(kind, settings, words):
    X, y, _ = table()
    X[:8] = list(product(*RANGES.T))  # corners: preconditioning makes some of them too long
    public = {"target_range": (0, 2)} if kind in REGRESSORS else {"classes": [0, 1]}
    model = kind(**BUDGET, epochs=2, feature_ranges=RANGES, **public, **settings).fit(X, y)
    note = model.summary().note
    assert words in note
    assert bool(note) == bool(words) == ("linear_predictor=True" in note)
    predictors = (
        model.predict(X)
        if kind in REGRESSORS
        else logit(model.predict_proba(X)[:, 1])
        if kind is learn.PrivateLogisticRegression
        else model.decision_function(X)
    )
    predictors = np.log(predictors) if kind in LOG_LINKS else predictors
    differs = np.max(np.abs(predictors - linear(model, X)[:, 0])) > 1e-9
    assert differs == bool(words)


@every("norm", [0.5, 1.0])
def test_a_summary_tells_that_longer_rows_are_shortened(norm):
    X, y, _ = table()
    settings = QUICK | {"feature_ranges": None, "classes": [0, 1]}
    model = learn.PrivateLogisticRegression(**BUDGET, **settings, feature_norm=norm).fit(X, y)
    shown = f"Rows longer than feature_norm = {norm:g} are shortened"
    assert model.summary().note.startswith(shown)
    unit = np.eye(3) * norm
    seen = logit(model.predict_proba(np.vstack([unit, 2.0 * unit]))[:, 1])
    alone = (unit @ model.coef_.T + model.intercept_)[:, 0]
    assert seen == pytest.approx(np.tile(alone, 2), abs=1e-9)  # the longer as the shorter


def test_bad_arguments_are_refused_by_name():
    X, y, _ = table()
    model = learn.PrivateLogisticRegression(**BUDGET, **QUICK).fit(X, y)
    for level in (0.0, 1.0, -1.0, math.nan, "much"):
        refused("level", model.summary, level)
        refused("linear_predictor", model.set_params(linear_predictor=level).plan, 100, 3, 2)
    assert "expected 3 names, got 2" in refused("columns", model.summary, columns=["a", "b"])
    with pytest.raises(NotFittedError):
        clone(model).summary()
    assert not hasattr(clone(model), "coef_std_")


# The switch.


def test_a_fit_knows_whether_it_was_linear():
    """Another value of the switch changes no fitted classifier; a fit leaves nothing of the last."""
    X, y, _ = table()
    model = learn.PrivateLogisticRegression(**BUDGET, **QUICK, precondition=0.3).fit(X, y)
    before = model.predict_proba(X)
    model.set_params(linear_predictor=False)
    assert np.array_equal(model.predict_proba(X), before)
    model.fit(X, y)
    assert not hasattr(model, "link_")
    assert model.preconditioner_.equal
    before = model.predict_proba(X)
    model.set_params(linear_predictor=True)
    assert np.array_equal(model.predict_proba(X), before)
    assert model.summary().note


@pytest.mark.parametrize("kind", [learn.PrivateLogisticRegression, learn.PrivateLinearRegression])
def test_forgetting_and_restoring_keep_the_switch(kind, file):
    model = that_forgets(kind, 5.0, l2=0.1, linear_predictor=True).fit(F, G, keep_state=file)
    again = clone(model).restored(file)
    assert np.array_equal(again.coef_, model.coef_)
    newer = model.forget(F, G, [3, 4], TARGET, DELTA, state=file, accept_loss=True)
    anew = newer.forget(F, G, [5], TARGET, DELTA, state=file, retrain=True)
    for one in (model, again, newer, anew):
        z = F @ np.ravel(one.coef_) + np.ravel(one.intercept_)
        predicted = one.predict_proba(F)[:, 1] if hasattr(one, "link_") else one.predict(F)
        expected = expit(z) if hasattr(one, "link_") else z
        assert np.max(np.abs(predicted - expected)) < 1e-12
        assert np.all(one.coef_std_ > 0.0)
    with pytest.raises(InvalidInput, match="^linear_predictor: expected True as in the state"):
        clone(model).set_params(linear_predictor=False).restored(file)


def test_a_state_older_than_the_switch_is_one_of_a_fit_without(file, monkeypatch):
    settings = forgetting._settings

    def older(estimator):
        return {k: v for k, v in settings(estimator).items() if k != "linear_predictor"}

    with monkeypatch.context() as patch:
        patch.setattr(forgetting, "_settings", older)
        model = that_forgets(learn.PrivateLogisticRegression, 5.0).fit(F, G, keep_state=file)
    assert np.array_equal(clone(model).restored(file).coef_, model.coef_)
    anew = clone(model).set_params(linear_predictor=True).restored
    assert "expected 'auto' as in the state" in refused("linear_predictor", anew, file)

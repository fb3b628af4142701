"""The private whitener: scikit-learn's in manner, its release as accounted, its rows within their norm."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import pabi
from pabi.learn import PrivateWhitener
from pabi.learn import plans as whitening_module
from pabi.numbers.errors import TargetUnreachable
from support.every_case import every, refused, refuses

EPSILON, DELTA = 5.0, 1e-4


def table(n=500, d=4, seed=0):
    """Rows within and beyond the norm 1, of columns of different sizes, one of them off centre."""
    X = np.random.default_rng(seed).standard_normal((n, d)) * np.geomspace(0.6, 0.05, d)
    X[:, 0] += 0.3
    return X


def fitted(X=None, **changes):
    return PrivateWhitener(EPSILON, DELTA, **changes).fit(table() if X is None else X)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_release_executed_is_the_release_accounted(monkeypatch, intercept):
    calls = []
    execute = whitening_module.noisy_moments

    def recorded(terms, moments, records, groups):
        calls.append((moments, records.feature_norm, records.intercept_scaling))
        return execute(terms, moments, records, groups)

    monkeypatch.setattr(whitening_module, "noisy_moments", recorded)
    whitener = fitted(fit_intercept=intercept, feature_norm=0.5, intercept_scaling=0.25)
    ((moments, norm, constant),) = calls
    assert moments is whitener.moments_
    assert norm == 0.5
    assert constant == (0.25 if intercept else None)
    assert moments.feature_norm >= math.hypot(0.5, 0.25 * intercept)
    assert moments.dimension == 4 + intercept
    assert whitener.guarantee_.epsilon(DELTA) == moments.guarantee(DELTA).epsilon(DELTA)


@every("equal", [True, False])
@every("norm", [0.25, 1.0, 8.0])
def test_rows_come_out_within_the_norm(equal, norm):
    whitener = fitted(equal_norms=equal, output_norm=norm)
    X = table(seed=5) * 10.0
    lengths = np.linalg.norm(whitener.transform(X).astype(np.float64), axis=1)
    assert np.max(lengths) <= norm
    assert (np.min(lengths) >= norm * (1.0 - 2.0**-17)) == equal


def test_mean_squares_become_alike():
    """With little noise the second moments of mapped rows, before they have one norm, are the identity."""
    X = table(n=4000)
    X *= 0.9 / np.max(np.linalg.norm(X, axis=1))
    whitener = fitted(X, noise_std=1e-9)
    seen = np.column_stack([X, np.ones(len(X))])
    image = seen @ whitener.preconditioner_.matrix / whitener.preconditioner_.unit
    np.testing.assert_allclose(image.T @ image / len(X), np.eye(5), atol=1e-6)
    columns = whitener.transform(X)
    expected = image / np.linalg.norm(image, axis=1, keepdims=True)
    np.testing.assert_allclose(columns, expected, atol=1e-4)


def test_a_wide_sparse_table_stays_sparse():
    X = sparse.random(3000, 5000, 0.002, format="csr", random_state=np.random.default_rng(0))
    whitener = fitted(X, fit_intercept=False)
    mapped = whitener.transform(X)
    assert sparse.issparse(mapped)
    assert mapped.nnz == X.nnz
    assert whitener.moments_.diagonal
    assert whitener.preconditioner_.matrix.shape == (5000,)
    dense = whitener.transform(X.toarray())
    assert np.max(np.abs(mapped.toarray() - dense)) < 1e-6


@every("ranges", [(-2.0, 2.0), {"a": (-2, 2), "b": (0, 1), "c": (-1, 3), "d": (0, 9)}])
def test_ranges_come_before_the_map(ranges):
    whitener = fitted(pd.DataFrame(table(), columns=list("abcd")), feature_ranges=ranges)
    low, high = np.transpose([ranges[c] if isinstance(ranges, dict) else ranges for c in "abcd"])
    wild = pd.DataFrame(table(seed=2) * 20.0, columns=list("abcd"))
    clipped = np.clip(wild, low, high)
    np.testing.assert_allclose(whitener.transform(wild), whitener.transform(clipped), atol=1e-6)
    assert whitener.moments_.feature_norm >= math.sqrt(4.0 + 1.0)


def test_nothing_but_the_release_is_kept():
    """The same released values of other data, the same state but for what depends on nothing private."""
    states = []
    for X in (table(), np.zeros((500, 4))):
        with pytest.MonkeyPatch.context() as patch:
            fixed = pabi.learn.ReleasedMoments(500.0 * np.eye(5), fitted(noise_std=3.0).guarantee_)
            patch.setattr(whitening_module, "noisy_moments", lambda *a, fixed=fixed, **k: fixed)
            states.append(
                fitted(X, noise_std=3.0).__getstate__() | {"_turn": 0}
            )  # which fit it was
    assert pickle.dumps(states[0]) == pickle.dumps(states[1])


def test_bad_arguments_are_refused_by_name_before_anything_is_released(monkeypatch):
    monkeypatch.setattr(whitening_module, "noisy_moments", lambda *a, **k: pytest.fail("released"))
    stated = {"epsilon": EPSILON, "delta": DELTA}
    bad = {"epsilon": (0.0, "one"), "delta": (1.0,), "feature_norm": (-1.0, "one")}
    bad |= {"equal_norms": ("yes", 1), "output_norm": (0.0, math.inf, 1e300)}
    bad |= {"adjacency": ("add_or_remove_one",), "noise_std": (0.0, math.nan, 1e6)}
    bad |= {"intercept_scaling": (0.0,), "random_state": ("seed",), "feature_ranges": ((1, -1),)}
    refuses(lambda **wrong: PrivateWhitener(**stated | wrong).fit(table()), bad)


@every(("n", "d"), [(1, 1), (2, 1), (1, 5), (40, 200)])
def test_what_noise_would_hide_is_refused_with_the_epsilon_that_is_needed(n, d):
    X = table(n, d)
    said = r"expected an epsilon above [\d.]+, more rows or fewer columns$"
    with pytest.raises(TargetUnreachable, match=said) as caught:
        PrivateWhitener(1.0, 1e-3).fit(X)
    least = caught.value.best
    assert 1.0 < least < math.inf
    with pytest.raises(TargetUnreachable):
        PrivateWhitener(least * (1.0 - 1e-6), 1e-3).fit(X)
    assert PrivateWhitener(least * (1.0 + 1e-6), 1e-3).fit(X).guarantee_.epsilon(1e-3) > least


def test_stated_noise_that_would_hide_everything_is_refused_with_the_most_that_would_not():
    said = refused("noise_std", fitted, noise_std=1e5)
    assert "noise hides" in said
    most = float(said.split(" expected less than ")[1])
    assert fitted(noise_std=most * (1.0 - 1e-5)).moments_.noise_std < most
    refused("noise_std", fitted, noise_std=most * (1.0 + 1e-5))
    # The norm of rows is √2 with the constant.
    assert fitted(noise_std=4.0).guarantee_.mu == pytest.approx(2.0 * 2.0**0.5 / 4.0, rel=1e-12)

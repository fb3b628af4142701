"""The transformer: shapes, kinds of input, rows that stay apart, and one clear line for what is wrong."""

import math
import pickle
import statistics
import traceback

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_estimator

import pabi
from pabi.features import Scattering
from pabi.learn.scattering import cascade, group_normalised, paths, scattered
from support.every_case import every, refused, refuses

SMALL = Scattering((8, 8), J=1, groups=3, scale=16.0)


@pytest.fixture(scope="module")
def digits():
    """(200, 64) floats from 0 to 16."""
    return load_digits().data[:200]


def noise(n, *shape):
    return np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8)


@every(
    ("shape", "J", "L", "order", "groups", "width"),
    [
        ((28, 28), 2, 8, 2, 27, 3969),
        ((28, 28), 2, 8, 1, 17, 17 * 49),
        ((32, 32), 3, 8, 2, None, 217 * 16),
        ((11, 6), 1, 4, 2, 5, 5 * 5 * 3),
        ((4, 4), 2, 8, 2, None, 81),
    ],
)
def test_widths_follow_from_the_settings(shape, J, L, order, groups, width):
    transformer = Scattering(shape, J, L, max_order=order, groups=groups, scale=255)
    features = transformer.fit_transform(noise(3, *shape))
    assert features.shape == (3, width)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    names = transformer.get_feature_names_out()
    assert len(set(names)) == len(names) == width


def test_features_are_the_transform_of_scaled_pixels_then_groups(digits):
    plain = scattered(cascade((8, 8), 1, 8, 2), (digits / 16).astype("f4").reshape(-1, 8, 8))
    truth = group_normalised(plain, 3).reshape(200, -1)
    np.testing.assert_allclose(SMALL.transform(digits), truth, rtol=0, atol=1e-5)
    without = clone(SMALL).set_params(groups=None).transform(digits)
    np.testing.assert_allclose(without, plain.reshape(200, -1), rtol=0, atol=1e-6)


def test_every_kind_of_input_has_the_same_features(digits, tmp_path):
    truth = SMALL.transform(digits)
    np.save(tmp_path / "digits.npy", digits.astype(np.uint8))
    mapped = np.load(tmp_path / "digits.npy", mmap_mode="r")
    frame = pd.DataFrame(digits)
    for same in (
        *(digits.reshape(-1, 8, 8), digits.astype(np.uint8), digits.astype(np.float32)),
        *(digits.astype(object), digits.tolist(), np.asfortranarray(digits), mapped, frame),
    ):
        assert np.array_equal(SMALL.transform(same), truth)
        assert np.array_equal(clone(SMALL).fit(same).transform(same), truth)
    x = np.sign(np.random.default_rng(0).normal(size=(4, 28, 28))) * 1e12
    assert np.isfinite(Scattering((28, 28)).transform(x)).all()
    assert np.isfinite(Scattering((28, 28), scale=1e-300).transform(x * 1e-300)).all()


def test_a_row_is_the_same_to_the_last_bit_whatever_stands_beside_it(digits, monkeypatch):
    """Also where more are transformed than at once."""
    rows = np.random.default_rng(1).permutation(200)
    for transformer in (SMALL, clone(SMALL).set_params(groups=None)):
        truth = transformer.transform(digits)
        assert np.array_equal(transformer.transform(digits[rows]), truth[rows])
        for first, last in ((0, 1), (199, 200), (3, 10), (50, 187)):
            assert np.array_equal(transformer.transform(digits[first:last]), truth[first:last])
        for most in (1, 64 * 2, 64 * 200):
            with monkeypatch.context() as patch:
                patch.setattr("pabi.learn.scattering._BATCH", most)
                assert np.array_equal(transformer.transform(digits), truth)


def test_names_say_path_and_position_and_nothing_is_learnt(digits):
    names = Scattering((28, 20)).get_feature_names_out().tolist()
    assert names[3:6] == ["average_0_3", "average_0_4", "average_1_0"]
    channels = paths(2, 8, 2)
    assert names[35 * channels.index(((0, 3), (1, 5))) + 34] == "j0a3_j1a5_6_4"
    frame = clone(SMALL).set_output(transform="pandas").fit_transform(digits)
    assert frame.columns.tolist() == SMALL.get_feature_names_out().tolist()
    assert np.array_equal(frame.to_numpy(), SMALL.transform(digits))
    named = clone(SMALL).fit(pixels := pd.DataFrame(digits).add_prefix("p"))
    with pytest.raises(ValueError, match="feature names should match"):
        named.transform(pixels.rename(columns={"p0": "q0"}))
    model = clone(SMALL).fit(digits)
    assert set(vars(model)) - set(SMALL.get_params()) == {"n_features_in_"}
    assert model.n_features_in_ == 64
    assert clone(SMALL).fit(digits.reshape(-1, 8, 8)).n_features_in_ == 64
    assert pickle.loads(pickle.dumps(model)).get_params() == SMALL.get_params()
    assert pabi.features.Scattering is Scattering


BAD = {"shape": [8, (8, 8, 3), (8, 8.5), (1, 64)], "J": [-1, True], "L": [0], "max_order": [3]}
BAD |= {"groups": [27, 0], "scale": [0]}


@every("method", ["fit", "transform", "get_feature_names_out"])
def test_settings_are_refused_in_one_line(method, digits):
    def used(**wrong):
        use = getattr(clone(SMALL).set_params(**wrong), method)
        return use(digits) if method != "get_feature_names_out" else use()

    refuses(used, BAD)
    for shape, J in (((8, 7), 3), ((3, 8), 2)):
        assert f"= {J - 1}, got {J}" in refused("J", used, shape=shape, J=J)
    assert "a divisor of the 9 channels or None" in refused("groups", used, groups=27)


WANTED = "rows of 64 pixels or images of 8 × 8, got entries of shape"


@every(
    ("X", "message"),
    [
        *((np.zeros((5, *size)), f"{WANTED} {size}") for size in ((63,), (8, 9))),
        (np.zeros(64), f"{WANTED} ()"),
        (np.zeros((0, 64)), "at least one image, got none"),
        (csr_matrix((5, 64)), "an array, got a sparse matrix"),
        ([["secret"] * 64], "an array of numbers, got something else"),
        (np.array([["secret"] * 64], object), "an array of numbers, got something else"),
        ([[1.0], [2.0, 3.0]], "an array of numbers, got something else"),
    ],
)
def test_what_is_no_image_is_refused_in_one_line(X, message):
    for use in (clone(SMALL).fit, SMALL.transform):
        with pytest.raises(pabi.InvalidInput) as refusal:
            use(X)
        assert str(refusal.value) == f"X: expected {message}"
        assert "secret" not in "".join(traceback.format_exception(refusal.value.__cause__))


@every("wrong", [np.nan, np.inf, -np.inf, 1e14, -1e300])
def test_pixels_without_a_size_are_refused_and_not_shown(wrong, digits):
    x = digits.copy()
    x[150, 7] = wrong
    model = clone(SMALL)
    assert model.fit(x) is model  # which does not look at pixels
    with pytest.raises(pabi.InvalidInput) as refusal:
        SMALL.transform(x)
    assert str(refusal.value) == "X: expected finite pixels of at most 10¹² times `scale`"


# scikit-learn's own checks know tables of some widths only. Those that come with another end in its refusal.


@pytest.mark.parametrize("shape", [(2, 2), (2, 5)])
def test_scikit_learn_checks(shape):
    results = check_estimator(Scattering(shape, J=1, groups=3), on_fail=None)
    assert sum(result["status"] == "passed" for result in results) >= 15
    failures = {
        result["check_name"]
        for result in results
        if result["status"] == "failed"
        and "got entries of shape" not in "".join(traceback.format_exception(result["exception"]))
    }
    assert failures <= {"check_dtype_object"}  # which wants a TypeError where ours is a ValueError


@every(("channels", "groups"), [(6, 3), (6, 1), (6, 6), (81, 27)])
def test_every_group_of_every_image_is_normalised_by_itself(channels, groups):
    x = np.random.default_rng(0).normal(3.0, 2.0, (2, channels, 2, 3)).astype(np.float32)
    x[1] *= 1e-3
    result = group_normalised(x, groups)
    assert result.shape == x.shape
    assert result.dtype == np.float32
    size = channels // groups
    for image in range(2):
        for first in range(0, channels, size):
            part = x[image, first : first + size].astype(float).ravel().tolist()
            mean, variance = statistics.fmean(part), statistics.pvariance(part)
            truth = [(value - mean) / math.sqrt(variance + 1e-5) for value in part]
            measured = result[image, first : first + size].ravel()
            np.testing.assert_allclose(measured, truth, rtol=1e-4, atol=1e-4)
    x[:, :size] = 0.3  # without variation
    np.testing.assert_allclose(group_normalised(x, groups)[:, :size], 0.0, atol=1e-4)


# The transform against plain sums in space, against Kymatio, and against what its theory promises.


# Single precision: a coefficient's error is some units of 2⁻²⁴ of the largest pixel.
ROUNDING = 8 * 2.0**-24


def images(n, shape, seed=0):
    return np.random.default_rng(seed).random((n, *shape), dtype=np.float32)


def periodic(shape, value):
    """A function of pixels, made periodic, on the grid of one period."""
    y, x = np.mgrid[-3 * shape[0] : 4 * shape[0], -3 * shape[1] : 4 * shape[1]]
    return value(y, x).reshape(7, shape[0], 7, shape[1]).sum(axis=(0, 2))


def blur(shape, scales):
    variance = (0.8 * 2 ** (scales - 1)) ** 2

    def value(y, x):
        return np.exp(-(x**2 + y**2) / (2 * variance)) / (2 * math.pi * variance)

    return periodic(shape, value)


def wavelet(shape, j, k, angles):
    turn, slant = math.pi * (angles // 2 - 1 - k) / angles, 4 / angles
    width, xi = 0.8 * 2**j, 0.75 * math.pi / 2**j

    def gauss(y, x, frequency=0.0):
        along = y * math.cos(turn) + x * math.sin(turn)
        across = x * math.cos(turn) - y * math.sin(turn)
        exponent = -(along**2 + slant**2 * across**2) / (2 * width**2) + 1j * frequency * along
        return slant / (2 * math.pi * width**2) * np.exp(exponent)

    wave = periodic(shape, lambda y, x: gauss(y, x, xi))
    envelope = periodic(shape, gauss)
    return wave - wave.sum() / envelope.sum() * envelope


def on_level(kernel, level):
    """The kernel between pixels of a coarser grid: its waves that such a grid can hold."""
    waves = []
    for n in kernel.shape:
        m = n >> level
        k, u = np.arange(-m // 2, m // 2), np.arange(n)
        there = np.exp(-2j * math.pi * np.outer(k, u) / n)
        back = np.exp(2j * math.pi * np.outer(np.arange(m), k) / m) / m
        waves.append(back @ there)
    return waves[0] @ kernel @ waves[1].T


def convolved(x, kernel):
    """The sum over all pixels of their value times the kernel that is moved there."""
    total = np.zeros(x.shape, complex)
    for place in np.ndindex(x.shape):
        total += x[place] * np.roll(kernel, place, axis=(0, 1))
    return total


def directly(x, scales, angles):
    """The averages by path of a bordered image, at every 2ᴶ-th pixel."""
    low, level = blur(x.shape, scales), {(): 0}
    responses = {(): x}
    for path in paths(scales, angles, 2)[1:]:
        (j, k), before = path[-1], level[path[:-1]]
        kernel = on_level(wavelet(x.shape, j, k, angles), before)
        step = 2 ** (j - before)
        responses[path] = np.abs(convolved(responses[path[:-1]], kernel))[::step, ::step]
        level[path] = j
    return {
        path: convolved(u, on_level(low, level[path])).real[
            :: 2 ** (scales - level[path]), :: 2 ** (scales - level[path])
        ]
        for path, u in responses.items()
    }


@pytest.mark.parametrize(
    ("shape", "scales", "angles"), [((8, 9), 2, 3), ((7, 10), 1, 8), ((9, 8), 3, 2)]
)
def test_coefficients_are_plain_sums_in_space(shape, scales, angles):
    plan = cascade(shape, scales, angles, 2)
    (x,) = images(1, shape)
    size = 2**scales
    extra = [(n // size + 2) * size - n for n in shape]
    bordered = np.pad(x, [(e // 2, e - e // 2) for e in extra], mode="reflect")
    truth = directly(bordered.astype(float), scales, angles)
    coefficients = scattered(plan, x[None])[0]
    assert coefficients.shape[1:] == tuple(n // size for n in shape)
    for path, channel in zip(paths(scales, angles, 2), coefficients, strict=True):
        np.testing.assert_allclose(channel, truth[path][1:-1, 1:-1], rtol=0, atol=ROUNDING)
    first = 1 + scales * angles  # channels of one modulus
    once = scattered(cascade(shape, scales, angles, 1), x[None])[0]
    assert np.array_equal(once, coefficients[:first])
    assert len(coefficients) == first + angles**2 * scales * (scales - 1) // 2


# Kymatio 0.3.0, backend numpy, on numpy 1.26 and scipy 1.14: Scattering2D(J, (h, w), L, 2) of the image
# ((3r² + 5c + rc) mod 17)/16 in row r and column c. (channel's path, position, coefficient)

KYMATIO = {
    (18, 21, 2, 8): [
        ((), (0, 0), 0.47735112405772),
        ((), (3, 4), 0.5952912253911835),
        (((0, 0),), (1, 2), 0.0964777694017573),
        (((0, 3),), (0, 0), 0.0553402091581704),
        (((0, 7),), (2, 3), 0.05074474878362269),
        (((1, 0),), (3, 0), 0.03981427460932165),
        (((1, 4),), (1, 1), 0.019725666677126306),
        (((1, 7),), (3, 4), 0.03280474246706189),
        (((0, 0), (1, 0)), (0, 4), 0.01867967519915243),
        (((0, 2), (1, 5)), (2, 2), 0.002635036789358982),
        (((0, 5), (1, 2)), (1, 3), 0.002803803819935906),
        (((0, 7), (1, 7)), (3, 4), 0.003275489734618737),
    ],
    (9, 8, 3, 3): [
        ((), (0, 0), 0.5016620064677892),
        (((0, 1),), (0, 0), 0.128580402236626),
        (((1, 2),), (0, 0), 0.044813147528814684),
        (((2, 2),), (0, 0), 0.039866781707178826),
        (((0, 0), (1, 2)), (0, 0), 0.00980559900897852),
        (((0, 1), (2, 1)), (0, 0), 0.006424121316574766),
        (((1, 2), (2, 2)), (0, 0), 0.00476960971502616),
    ],
}


@pytest.mark.parametrize("setting", KYMATIO)
def test_coefficients_are_those_of_kymatio(setting):
    height, width, scales, angles = setting
    r, c = np.mgrid[:height, :width]
    x = ((3 * r * r + 5 * c + r * c) % 17) / 16
    coefficients = scattered(cascade((height, width), scales, angles, 2), x[None].astype("f4"))[0]
    channels = paths(scales, angles, 2)
    for path, position, theirs in KYMATIO[setting]:
        # Every filter of theirs is divided by 3.1415 in place of π.
        filters = len(path) + 1
        ours = coefficients[channels.index(path)][position] * (math.pi / 3.1415) ** filters
        assert ours == pytest.approx(theirs, rel=1e-6)  # both in part in single precision

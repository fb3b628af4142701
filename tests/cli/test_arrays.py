"""`pabi train` and its neighbours on arrays: `.npy` files and Zarr, in memory and in passes."""

from __future__ import annotations

import contextlib
import io
import os
import re

import numpy as np
import pytest
import tomli_w

from pabi import cli

pytest.importorskip("pandas", reason="needs pandas: pip install '.[train]'")
pytest.importorskip("skops.io", reason="needs skops: pip install '.[train]'")

N = 3000
RNG = np.random.default_rng(5)
X = RNG.uniform(-1.0, 1.0, (N, 3)).astype("f4")
Y = (X[:, 0] + 0.2 * X[:, 1] > 0.0).astype(np.int8)
COLUMNS = {f"x{j}": {"kind": "numeric", "range": [-1, 1]} for j in range(3)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with `X.npy`, `y.npy` and `schema.toml`."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    np.save("y.npy", Y)
    schema = {"columns": COLUMNS, "target": {"levels": [0, 1]}}
    (tmp_path / "schema.toml").write_text(tomli_w.dumps(schema), encoding="utf-8")
    return tmp_path


def run(*arguments):
    """(status, standard output, standard error)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(arguments)
    return status, out.getvalue(), err.getvalue()


def train(data, target, *more):
    options = {
        "--schema": "schema.toml",
        "--target": target,
        "--epsilon": "2",
        "--delta": "1e-6",
        "--epochs": "2",
        "--seed": "1",
        "--out": "model.skops",
        "--guarantee": "guarantee.json",
    }
    return run("train", *data, *(word for one in options.items() for word in one), "--force", *more)


def predicted(data):
    status, out, err = run("predict", "model.skops", data, "--out", "-")
    assert status == 0, err
    return out


def write_zarr(path, array):
    zarr = pytest.importorskip("zarr", reason="needs zarr: pip install '.[zarr]'")
    chunks = (700, *array.shape[1:])
    stored = zarr.open_array(path, mode="w", shape=array.shape, chunks=chunks, dtype=array.dtype)
    stored[:] = array


@pytest.mark.parametrize("scratch", [(), ("--scratch", ".")], ids=["in memory", "in passes"])
def test_every_form_trains_the_same_model(folder, scratch):
    """A CSV, which has been read before there were arrays, is what they are compared with."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[train]'")
    frame = pandas.DataFrame(X.astype(np.float64), columns=list(COLUMNS)).assign(y=Y)
    frame.to_csv("people.csv", index=False, float_format="%.17g")
    (folder / "parts").mkdir()
    frame[:1000].to_parquet("parts/a.parquet")
    frame[1000:].to_parquet("parts/b.parquet")
    np.save("first.npy", X[:1000])
    np.save("rest.npy", X[1000:])
    write_zarr("X.zarr", X)
    write_zarr("y.zarr", Y)
    assert train(["people.csv"], "y")[0] == 0
    expected = predicted("people.csv")
    assert np.mean([line == str(y) for line, y in zip(expected.split()[1:], Y, strict=True)]) > 0.8
    for data, target in (
        (["X.npy"], "y.npy"),
        (["first.npy", "rest.npy"], "y.npy"),
        (["X.zarr"], "y.zarr"),
        (["people.csv"], "y.npy"),
        (["parts"], "y"),
    ):
        status, _, err = train(data, target, "--progress", *scratch)
        assert status == 0, err
        assert re.search(r"^training ━+ 235/235 \d:\d\d:\d\d \d:\d\d:\d\d$", err, re.MULTILINE)
        assert predicted("people.csv") == expected
    assert predicted("X.npy") == predicted("X.zarr") == expected


def test_a_schema_of_an_array(folder):
    status, out, _ = run("schema", "X.npy")
    assert status == 0
    assert [f"[columns.x{j}]" in out for j in range(4)] == [True, True, True, False]


def with_a_cell(array, cell):
    changed = array.astype(np.float64)
    changed.reshape(-1)[-1] = cell
    return changed


@pytest.mark.parametrize("scratch", [(), ("--scratch", ".")], ids=["in memory", "in passes"])
@pytest.mark.parametrize(
    ("files", "target", "message"),
    [
        ({"y": Y[:-1]}, "y.npy", "y.npy: expected as many rows as"),
        ({"y": np.append(Y, 1)}, "y.npy", "y.npy: expected as many rows as"),
        ({"y": with_a_cell(Y, 2)}, "y.npy", "y.npy: "),
        ({"y": with_a_cell(Y, np.nan)}, "y.npy", "y.npy: "),
        ({"y": X}, "y.npy", r"y.npy: expected shape (n,), got (3000, 3)"),
        ({"X": Y}, "y.npy", r"X.npy: expected shape (n, d), got (3000,)"),
        ({"X": X[:, :2]}, "y.npy", "X.npy: expected a column 'x2', it has none"),
        ({"X": np.array([["a"]])}, "y.npy", "X.npy: expected real numbers, got dtype <U1"),
        ({"X": np.array([[None]])}, "y.npy", "X.npy: expected an array of numbers"),
        ({}, "z.npy", "z.npy: cannot be read: No such file"),
    ],
)
def test_bad_arrays_are_one_line(folder, scratch, files, target, message):
    for name, array in files.items():
        np.save(f"{name}.npy", array, allow_pickle=True)
    status, out, err = train(["X.npy"], target, *scratch)
    lines = err.strip().splitlines()
    assert (status, out, len(lines)) == (2, "", 1), err
    assert message in lines[0]
    assert not (folder / "model.skops").exists()


def test_an_array_that_changes_between_passes(folder, monkeypatch):
    """A chunk of a Zarr array that is written again: nothing is released."""
    from pabi.execute.layouts import Layout

    write_zarr("X.zarr", X)
    arrange = Layout.arrange

    def arranged(self, secret, again):
        chunk = next(file for file in sorted((folder / "X.zarr").rglob("*")) if "c/1" in str(file))
        chunk = chunk if chunk.is_file() else next(chunk.iterdir())
        os.utime(chunk, ns=(1, 1))
        return arrange(self, secret, again)

    monkeypatch.setattr(Layout, "arrange", arranged)
    status, _, err = train(["X.zarr"], "y.npy", "--scratch", ".")
    assert status == 2
    assert err.strip() == (
        "error: X: it changed while it was read: expected the same rows in every pass; nothing was released"
    )
    assert not (folder / "model.skops").exists()


def test_targets_are_not_overwritten(folder):
    assert train(["X.npy"], "y.npy", "--guarantee", "y.npy")[0] == 2
    assert np.array_equal(np.load("y.npy"), Y)

"""`pabi train` and its neighbours on arrays: `.npy` files and Zarr, in memory and in passes."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from pabi.execute.layouts import Layout
from support.every_case import every
from support.tables import assert_one_line, files, run
from support.tables import train as train_on

pandas = pytest.importorskip("pandas", reason="needs pandas: pip install '.[train]'")
pytest.importorskip("skops.io", reason="needs skops: pip install '.[train]'")

RNG = np.random.default_rng(5)
X = RNG.uniform(-1.0, 1.0, (3000, 3)).astype("f4")
Y = (X[:, 0] + 0.2 * X[:, 1] > 0.0).astype(np.int8)
COLUMNS = {f"x{j}": {"kind": "numeric", "range": [-1, 1]} for j in range(3)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, with `X.npy`, `y.npy` and `schema.toml`."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    np.save("y.npy", Y)
    schema = {"columns": COLUMNS, "target": {"levels": [0, 1]}}
    Path("schema.toml").write_text(tomli_w.dumps(schema), "utf-8")


def train(data, target, *more, **changes):
    options = {"epsilon": "2", "delta": "1e-6", "epochs": "2", "seed": "1"} | changes
    return train_on(*data.split(), more=("--force", *more), target=target, **options)


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
def test_every_form_trains_the_same_model(scratch):
    """A CSV, which has been read before there were arrays, is what they are compared with."""
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[train]'")
    frame = pandas.DataFrame(X.astype(np.float64), columns=list(COLUMNS)).assign(y=Y)
    frame.to_csv("people.csv", index=False, float_format="%.17g")
    Path("parts").mkdir()
    frame[:1000].to_parquet("parts/a.parquet")
    frame[1000:].to_parquet("parts/b.parquet")
    np.save("first.npy", X[:1000])
    np.save("rest.npy", X[1000:])
    write_zarr("X.zarr", X)
    write_zarr("y.zarr", Y)
    assert train("people.csv", "y").status == 0
    expected = predicted("people.csv")
    assert np.mean([line == str(y) for line, y in zip(expected.split()[1:], Y, strict=True)]) > 0.8
    for data, target in (
        *(("X.npy", "y.npy"), ("first.npy rest.npy", "y.npy"), ("X.zarr", "y.zarr")),
        *(("people.csv", "y.npy"), ("parts", "y")),
    ):
        status, _, err = train(data, target, "--progress", *scratch)
        assert status == 0, err
        assert re.search(r"^training ━+ (\d+)/\1 \d:\d\d:\d\d \d:\d\d:\d\d$", err, re.MULTILINE)
        assert predicted("people.csv") == expected
    assert predicted("X.npy") == predicted("X.zarr") == expected


def test_a_schema_of_an_array_and_targets_that_are_not_overwritten():
    status, out, _ = run("schema", "X.npy")
    assert status == 0
    assert [f"[columns.x{j}]" in out for j in range(4)] == [True, True, True, False]
    assert train("X.npy", "y.npy", guarantee="y.npy").status == 2
    assert np.array_equal(np.load("y.npy"), Y)


def ending_in(cell):
    return np.append(Y[:-1].astype(np.float64), cell)


@every(
    "saved, target, message",
    [
        ({"y": Y[:-1]}, "y.npy", "y.npy: expected as many rows as"),
        ({"y": np.append(Y, 1)}, "y.npy", "y.npy: expected as many rows as"),
        ({"X": np.array([[None]])}, "y.npy", "X.npy: expected an array of numbers"),
        ({"y": ending_in(2)}, "y.npy", "y.npy: "),
        ({"y": ending_in(np.nan)}, "y.npy", "y.npy: "),
        ({"y": X}, "y.npy", r"y.npy: expected shape (n,), got (3000, 3)"),
        ({"X": Y}, "y.npy", r"X.npy: expected shape (n, d), got (3000,)"),
        ({"X": X[:, :2]}, "y.npy", "X.npy: expected a column 'x2', it has none"),
        ({"X": np.array([["a"]])}, "y.npy", "X.npy: expected real numbers, got dtype <U1"),
        ({}, "z.npy", "z.npy: cannot be read: No such file"),
    ],
)
def test_bad_arrays_are_one_line(saved, target, message):
    for name, array in ({"X": X, "y": Y} | saved).items():
        np.save(f"{name}.npy", array, allow_pickle=True)
    for scratch in ((), ("--scratch", ".")):
        assert_one_line(train("X.npy", target, *scratch), message)
        assert "model.skops" not in files()


def test_an_array_that_changes_between_passes(tmp_path, monkeypatch):
    """A chunk of a Zarr array that is written again: nothing is released."""
    write_zarr("X.zarr", X)
    arrange = Layout.arrange

    def arranged(self, secret, again):
        chunk = next(f for f in sorted((tmp_path / "X.zarr").rglob("*")) if "c/1" in str(f))
        os.utime(chunk if chunk.is_file() else next(chunk.iterdir()), ns=(1, 1))
        return arrange(self, secret, again)

    monkeypatch.setattr(Layout, "arrange", arranged)
    said = "X: it changed while it was read: expected the same rows in every pass; nothing was released"
    assert_one_line(train("X.zarr", "y.npy", "--scratch", "."), f"error: {said}\n")
    assert "model.skops" not in files()

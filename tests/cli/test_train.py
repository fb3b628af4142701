"""`pabi train`: a model and a guarantee from a table, or one line that says what is wrong."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tomli_w

import pabi
from pabi import cli
from pabi.cli import training
from pabi.cli.schema_file import read_schema
from support.data import data_file

pandas = pytest.importorskip("pandas", reason="needs pandas: pip install '.[train]'")
skops = pytest.importorskip("skops.io", reason="needs skops: pip install '.[train]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[train]'")

ROOT = Path(__file__).parents[2]
ADULT = ROOT / "examples" / "adult-schema.toml"

COLUMNS: dict[str, Any] = {
    "age": {"kind": "numeric", "range": [20, 60]},
    "job": {"kind": "categorical", "levels": ["clerk", "smith"]},
    "citizen": {"kind": "boolean"},
}
SCHEMA: dict[str, Any] = {"columns": COLUMNS}
REGRESSION: dict[str, Any] = {"columns": COLUMNS, "target": {"range": [0, 8]}}


class Result(NamedTuple):
    status: int
    out: str
    err: str


def people(n: int = 3000) -> Any:
    """Columns of raw values, a class that follows from age and job, and a count that does."""
    rng = np.random.default_rng(7)
    age, smith = rng.integers(20, 61, n), rng.random(n) < 0.5
    return pandas.DataFrame(
        {
            "id": np.arange(n),
            "age": age,
            "job": np.where(smith, "smith", "clerk"),
            "citizen": np.where(rng.random(n) < 0.5, "yes", "no"),
            "rich": np.where(age + 20 * smith > 50, "yes", "no"),
            "children": rng.poisson(np.exp((age - 40) / 20)).clip(max=8),
        }
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with `people.csv` and `schema.toml`."""
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    write_schema(SCHEMA)
    return tmp_path


def write_schema(table: dict[str, Any]) -> None:
    Path("schema.toml").write_text(tomli_w.dumps(table), encoding="utf-8")


def run(*arguments: str) -> Result:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(arguments)
    return Result(status, out.getvalue(), err.getvalue())


def train(*more: str, data: str = "people.csv", target: str = "rich", **changes: str) -> Result:
    """`pabi train` with usual options, `changes` in their place."""
    options = {"schema": "schema.toml", "epsilon": "1", "delta": "1e-4"}
    options |= {"out": "model.skops", "guarantee": "g.json"} | changes
    given = [text for name, value in options.items() for text in (f"--{name}", value)]
    answered = {"groups"} & changes.keys() or {"--groups", "--one-row-each"} & set(more)
    more = more if answered else (*more, "--one-row-each")  # of tables with a column called "id"
    return run("train", data, "--target", target, *given, *more)


def load(path: str = "model.skops") -> Any:
    return skops.load(path, trusted=skops.get_untrusted_types(file=path))


def assert_refused(result: Result, *mentions: str) -> None:
    """Exit 2 with one line that mentions these, and nothing written."""
    assert result.status == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert "defect" not in result.err
    for mention in mentions:
        assert mention in result.err
    here = {path.name for path in Path().iterdir()}
    assert not {name for name in here if name.startswith(("model", "g.json", "."))}


def test_a_model_and_its_guarantee(folder: Path) -> None:
    result = train()
    assert (result.status, result.err) == (0, "")
    assert "records      3000\nepsilon      1 at delta 0.0001\nmu  " in result.out
    assert "adjacency    replace_one\nassumptions\n" in result.out
    assert "was declared without looking at the data" in result.out
    frame = people()
    model = load()
    # Chance is 0.5, with a standard deviation of 0.009.
    assert np.mean(model.predict(frame.drop(columns="rich")) == frame.rich) > 0.85
    assert model.predict({"age": [60], "job": ["smith"], "citizen": ["no"]}).tolist() == ["yes"]

    stated = json.loads((folder / "g.json").read_text(encoding="utf-8"))
    guarantee = pabi.Guarantee.from_json(json.dumps(stated))
    assert stated["epsilon"] == guarantee.epsilon(1e-4) <= 1.0
    assert stated["delta"] == 1e-4
    assert guarantee.assumptions == model[-1].guarantee_.assumptions
    assert guarantee.assumptions[-1].startswith("the schema ")
    assert "the label set is public" in guarantee.assumptions  # for it was not declared
    verdict = run("verify", "g.json", "--epsilon", "1", "--delta", "1e-4")
    assert verdict.status == 0
    for sentence in guarantee.assumptions:  # those that the description does not imply, too
        assert verdict.out.count(f"  - {sentence}\n") == 1
    assert run("verify", "g.json", "--epsilon", "0.9", "--delta", "1e-4").status == 1


def test_nothing_but_the_model_depends_on_the_data(folder: Path) -> None:
    said = train()
    frame = people()
    frame["rich"] = frame.rich.to_numpy()[::-1]  # to be predicted hardly better than by chance
    frame.to_csv("people.csv", index=False)
    assert train("--force") == said


def test_parquet_gives_what_csv_gives(folder: Path) -> None:
    assert train("--seed", "1").status == 0
    people().to_parquet("people.parquet")
    assert train("--seed", "1", data="people.parquet", out="other.skops", guarantee="h").status == 0
    first, second = load()[-1], load("other.skops")[-1]
    assert np.array_equal(first.coef_, second.coef_)
    assert np.array_equal(first.intercept_, second.intercept_)


@pytest.mark.parametrize("model", ["linear", "huber", "poisson"])
def test_regression_in_the_units_of_the_target(folder: Path, model: str) -> None:
    write_schema(REGRESSION)
    assert train(target="children", model=model, epsilon="4").status == 0
    frame = people()
    errors = load().predict(frame) - frame.children
    assert np.mean(errors**2) < 0.8 * np.var(frame.children)
    assert run("verify", "g.json", "--epsilon", "4", "--delta", "1e-4").status == 0


@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize("model", ["linear", "huber", "poisson"])
def test_the_range_of_the_target_is_the_estimators(folder: Path, model: str) -> None:
    write_schema(REGRESSION)
    assert train("--seed", "5", target="children", model=model).status == 0
    pipeline, frame = load(), people()
    fitted = pipeline[-1]
    again = type(fitted)(
        epsilon=1.0,
        delta=1e-4,
        target_range=(0, 8),
        feature_norm=fitted.feature_norm,
        random_state=5,
    ).fit(pipeline[0].transform(frame), frame.children)
    assert again.run_ == fitted.run_
    assert np.array_equal(again.predict(pipeline[0].transform(frame)), pipeline.predict(frame))
    assert "target_range is public" in fitted.guarantee_.assumptions


def test_declared_classes_keep_their_type(folder: Path) -> None:
    frame = people()
    frame["rich"] = np.where(frame.rich == "yes", 2, 1)
    frame.to_csv("people.csv", index=False)
    write_schema(SCHEMA | {"target": {"levels": [1, 2, 3]}})
    result = train(model="svc")
    assert result.status == 0
    assert "label set" not in result.out
    assert load().classes_.tolist() == [1, 2, 3]


def test_undeclared_whole_numbers_are_classes(folder: Path) -> None:
    frame = people()
    frame["rich"] = np.where(frame.rich == "yes", 1, 0)
    frame.to_csv("people.csv", index=False)
    assert train().status == 0
    assert load().classes_.tolist() == [0, 1]


def test_settings_come_from_the_schema_and_options_go_first(folder: Path) -> None:
    batches = {"kind": "cyclic", "size": 500}
    settings = {"epochs": 3, "batches": batches, "l2": 0.5, "adjacency": "zero_out"}
    write_schema(SCHEMA | {"model": settings})
    assert "adjacency    zero_out" in train().out
    fitted = load()[-1]
    assert (fitted.run_.epochs, fitted.run_.batches) == (3, pabi.Cyclic(500))
    assert fitted.run_.loss.l2 == 0.5

    options = ("--force", "--epochs", "2", "--adjacency", "replace_one", "--feature-norm", "1.25")
    assert "adjacency    replace_one" in train(*options).out
    fitted = load()[-1]
    assert (fitted.run_.epochs, fitted.feature_norm) == (2, 1.25)


def test_rows_keep_their_length_by_default(folder: Path) -> None:
    assert train().status == 0
    assert load()[-1].feature_norm == pytest.approx(3**0.5, abs=1e-3)
    warning = train("--force", "--feature-norm", "0.5")
    assert warning.status == 0
    assert warning.err.count("\n") == 1
    assert "keep it to yourself" in warning.err


def test_what_exceeds_the_schema_is_said_on_standard_error_only(folder: Path) -> None:
    write_schema({"columns": COLUMNS | {"age": {"kind": "numeric", "range": [30, 50]}}})
    result = train()
    assert result.status == 0
    assert result.err.startswith("warning: some cells are outside the declared ranges")
    assert result.err.count("\n") == 1
    assert b"keep it" not in (folder / "model.skops").read_bytes()
    assert "keep it" not in (folder / "g.json").read_text(encoding="utf-8")


def test_noise_that_doubles_swallow_is_refused(folder: Path) -> None:
    """A budget beyond all bounds leaves less noise than the spacing of doubles."""
    result = train("--epochs", "2000", epsilon="1e27")
    assert result.status == 2
    assert result.err.startswith("error: noise_std: iterates can reach")
    assert result.err.count("\n") == 1
    assert not (folder / "model.skops").exists()


def test_a_seed_is_for_tests(folder: Path) -> None:
    result = train("--seed", "3")
    assert result.status == 0
    assert result.err.startswith("warning: random_state was given")
    assert "noise reproducible: testing only" in result.out
    assert run("verify", "g.json", "--epsilon", "1", "--delta", "1e-4").status != 0


def test_progress_is_steps_and_time(folder: Path) -> None:
    assert "training" in train("--progress").err
    assert train("--force", "--no-progress").err == ""


@pytest.mark.parametrize("model", ["logistic", "poisson"])
@pytest.mark.parametrize("data", ["people.csv", "people.parquet"])
def test_a_folder_for_rows_gives_what_memory_gives(folder: Path, model: str, data: str) -> None:
    people().to_parquet("people.parquet")
    declared = {"levels": ["no", "yes"]} if model == "logistic" else {"range": [0, 8]}
    write_schema({"columns": COLUMNS, "target": declared})
    options = {"target": "rich" if model == "logistic" else "children", "data": data}
    own = train("--seed", "1", "--model", model, **options)
    expected = load()[-1]
    large = train("--seed", "1", "--model", model, "--force", "--scratch", ".", **options)
    assert (large.status, large.out, large.err) == (0, own.out, own.err)
    coef = load()[-1].coef_
    assert np.max(np.abs(coef - expected.coef_)) <= 1e-12 * np.max(np.abs(expected.coef_))


def test_users_in_passes(folder: Path) -> None:
    people().assign(who=np.arange(3000) % 500).to_csv("people.csv", index=False)
    write_schema({"columns": COLUMNS, "target": {"levels": ["no", "yes"]}})
    users = ("--seed", "1", "--groups", "who", "--users", "500")
    own = train(*users)
    assert train(*users, "--force", "--scratch", ".") == own


def test_progress_in_passes_is_steps_and_time(folder: Path) -> None:
    write_schema({"columns": COLUMNS, "target": {"levels": ["no", "yes"]}})
    shown = train("--scratch", ".", "--progress").err
    assert re.fullmatch(r"(training[\s━╺╸]*\d+/\d+ [\d:]+ [-\d:]+\s*)+", shown)


def test_passes_need_declared_labels_files_and_a_folder(folder: Path) -> None:
    assert_refused(train("--scratch", "."), "target.levels: missing: --scratch needs the levels")
    write_schema({"columns": COLUMNS, "target": {"levels": ["no", "yes"]}})
    assert_refused(train("--scratch", ".", data="-"), "standard input: is read once")
    assert_refused(train("--scratch", "nowhere"), "scratch: cannot write to nowhere")


def test_files_are_not_overwritten_unless_asked(folder: Path) -> None:
    assert train().status == 0
    before = (folder / "model.skops").read_bytes()
    result = train()
    assert result.status == 2
    assert "model.skops: exists already" in result.err
    assert (folder / "model.skops").read_bytes() == before
    assert train("--force").status == 0
    assert (folder / "model.skops").read_bytes() != before
    names = {path.name for path in folder.iterdir()}
    assert names == {"people.csv", "schema.toml", "model.skops", "g.json"}


@pytest.mark.parametrize(
    ("changes", "mentions"),
    [
        ({"data": "nobody.csv"}, ["nobody.csv", "no such file"]),
        ({"data": "people.txt"}, ["people.txt", "named .csv"]),
        ({"schema": "none.toml"}, ["none.toml"]),
        ({"schema": "people.csv"}, ["people.csv", "this is a table", "pabi train"]),
        ({"target": "rihc"}, ["'rihc'", "did you mean 'rich'"]),
        ({"target": "age"}, ["--target", "[columns.age]"]),
        ({"epsilon": "0"}, ["--epsilon", "> 0"]),
        ({"epsilon": "-1"}, ["--epsilon", "'-1'"]),
        ({"epsilon": "inf"}, ["--epsilon", "'inf'"]),
        ({"delta": "0"}, ["--delta", "> 0"]),
        ({"delta": "1"}, ["--delta", "'1'"]),
        ({"model": "forest"}, ["--model", "'forest'", "logistic"]),
        ({"model": "linear"}, ["schema.toml: target.range", "missing"]),
        ({"epochs": "0"}, ["--epochs", "> 0", "'0'"]),
        ({"epochs": "many"}, ["--epochs", "'many'"]),
        ({"feature-norm": "-1"}, ["--feature-norm", "'-1'"]),
        ({"adjacency": "add_or_remove_one"}, ["adjacency", "zero_out"]),
        ({"seed": "x"}, ["--seed"]),
        ({"out": "nowhere/model.skops"}, ["nowhere/model.skops", "existing folder"]),
        ({"guarantee": "nowhere/g.json"}, ["nowhere/g.json", "existing folder"]),
        ({"guarantee": "model.skops"}, ["files of their own"]),
    ],
)
def test_bad_options(folder: Path, changes: dict[str, str], mentions: list[str]) -> None:
    assert_refused(train(**changes), *mentions)


@pytest.mark.parametrize("lines", [1, 2], ids=["data", "names that are not declared"])
def test_a_first_line_without_names_is_not_shown(folder: Path, lines: int) -> None:
    """It may be somebody's record, of which a hint would show a cell."""
    rows = (folder / "people.csv").read_text("utf-8").splitlines(keepends=True)
    text = (
        "".join(rows[1:]) if lines == 1 else "no,ages,jobs,citizens,rihc,kids\n" + "".join(rows[1:])
    )
    (folder / "people.csv").write_text(text, "utf-8")
    result = train()
    assert_refused(result, "people.csv", "expected a first line with the names of columns")
    assert "did you mean" not in result.err
    assert ("the first line looks like data" in result.err) == (lines == 1)
    assert "rihc" not in result.err


def test_options_that_are_needed(folder: Path) -> None:
    assert_refused(run("train", "people.csv"), "Missing option")
    required = ["--schema", "schema.toml", "--target", "rich", "--out", "model", "--guarantee", "g"]
    assert_refused(run("train", "people.csv", *required), "--epsilon", "missing")
    assert_refused(train("--force", out="people.csv"), "files of their own")
    assert_refused(train("--force", out="."), "got a folder")


def rows(**cells: str) -> str:
    """Three sound people as CSV, and a fourth with these cells."""
    sound = {"age": "30", "job": "smith", "citizen": "yes", "rich": "no", "children": "2"}
    lines = [sound, sound | {"rich": "yes"}, sound, sound | cells]
    return "\n".join([",".join(sound), *(",".join(line.values()) for line in lines)]) + "\n"


@pytest.mark.parametrize(
    ("content", "mentions"),
    [
        (b"", ["expected a CSV table"]),
        (b"\x00\xff\xfe\x80 nothing like a table", ["expected a CSV table"]),
        (b"age,job,citizen,rich\n", ["at least one row"]),
        (b"age,job,rich\n30,smith,yes\n", ["'citizen'", "it has none"]),
        (b"age,job,citizen,rich,age\n30,smith,yes,no,3\n", ["several", "'age'"]),
        (b"age,job,citizen,rich\n30,smith,a,b,c\n40,smith,d,e,f\n", ["expected a CSV table"]),
        (rows(job="smith,clerk").encode(), ["expected a CSV table", "line 5"]),
        (rows(age="secret-7").encode(), ["age", "numeric column"]),
        (rows(citizen="secret-7").encode(), ["citizen", "boolean column"]),
        (rows(rich="").encode(), ["rich", "every row"]),
        (rows(rich="nan").encode(), ["rich", "every row"]),
        (rows()[: rows().index("yes,2")].encode() + b"no,2\n", ["rich", "one class only"]),
    ],
)
def test_bad_tables(folder: Path, content: bytes, mentions: list[str]) -> None:
    Path("people.csv").write_bytes(content)
    result = train()
    assert_refused(result, *mentions)
    assert "secret-7" not in result.err


@pytest.mark.parametrize("model", ["linear", "huber", "poisson"])
@pytest.mark.parametrize("cell", ["", "nan", "inf", "secret-7"])
def test_bad_amounts(folder: Path, model: str, cell: str) -> None:
    Path("people.csv").write_text(rows(children=cell), encoding="utf-8")
    write_schema(REGRESSION)
    result = train(target="children", model=model)
    assert_refused(result, "children")
    assert "secret-7" not in result.err


def test_counts_are_not_negative(folder: Path) -> None:
    Path("people.csv").write_text(rows(children="-1"), encoding="utf-8")
    write_schema(REGRESSION)
    assert_refused(train(target="children", model="poisson"), "children", "counts ≥ 0")


def test_not_a_parquet_file(folder: Path) -> None:
    Path("people.parquet").write_bytes(b"nothing like it")
    assert_refused(train(data="people.parquet"), "people.parquet", "expected a Parquet table")
    people(9).drop(columns="age").to_parquet("people.parquet")
    assert_refused(train(data="people.parquet"), "people.parquet", "'age'")


COLUMN = {"kind": "numeric", "range": [20, 60]}


@pytest.mark.parametrize(
    ("table", "mentions"),
    [
        ({}, ["columns", "[columns.NAME]"]),
        ({"columns": 3}, ["columns", "expected a table"]),
        ({"columns": {"age": {"kind": "numeric", "range": [60, 20]}}}, ["columns.age.range"]),
        ({"columns": {"age": COLUMN | {"rang": 3}}}, ["columns.age.rang", "did you mean range"]),
        (SCHEMA | {"age": COLUMN}, ["age", "[columns.age]"]),
        (SCHEMA | {"colums": {}}, ["colums", "did you mean columns"]),
        (SCHEMA | {"levels": ["a"]}, ["levels", "belongs to [target]"]),
        (SCHEMA | {"epochs": 3}, ["epochs", "belongs to [model]"]),
        (SCHEMA | {"model": {"range": [0, 1]}}, ["range", "belongs to [target]"]),
        (SCHEMA | {"target": {"l2": 1.0}}, ["l2", "belongs to [model]"]),
        (SCHEMA | {"target": {"level": ["a"]}}, ["level", "did you mean levels"]),
        (SCHEMA | {"target": {"levels": ["yes"]}}, ["target.levels", "2 or more"]),
        (SCHEMA | {"target": {"levels": ["yes", "maybe"]}}, ["rich", "target.levels"]),
        (SCHEMA | {"target": {"range": [0, 1]}}, ["target.range", "--model logistic"]),
        (SCHEMA | {"model": {"epoch": 3}}, ["epoch", "did you mean epochs"]),
        (SCHEMA | {"model": {"smoothing": 1.0}}, ["model.smoothing", "--model svc"]),
        (SCHEMA | {"model": {"epsilon": 1.0}}, ["epsilon", "unknown key in [model]"]),
        (SCHEMA | {"model": {"random_state": 1}}, ["random_state", "unknown key in [model]"]),
        (SCHEMA | {"model": {"l2": -1.0}}, ["l2", "-1"]),
        (SCHEMA | {"model": {"epochs": "some"}}, ["epochs", "'some'"]),
        (SCHEMA | {"model": {"feature_norm": 0.0}}, ["feature_norm", "got 0.0"]),
        (SCHEMA | {"model": {"intercept_scaling": "big"}}, ["intercept_scaling", "'big'"]),
        (SCHEMA | {"model": {"fit_intercept": 2}}, ["model.fit_intercept", "true or false"]),
        (SCHEMA | {"model": {"batches": "cyclic"}}, ["batches", "'cyclic'"]),
        (SCHEMA | {"model": {"batches": {"kind": "cyclic", "size": 5000}}}, ["1..n = 3000"]),
        (
            SCHEMA | {"model": {"batches": {"kind": "cyclic", "size": 5, "l2": 1.0}}},
            ["model.batches.l2", "settings go above it"],
        ),
        (
            SCHEMA | {"model": {"batches": {"kind": "poisson", "size": 9, "caps": 12}}},
            ["model.batches.caps", "kind, size and cap"],
        ),
        (
            SCHEMA | {"model": {"batches": {"kind": "poisson", "size": 9, "cap": 5}}},
            ["cap", "got 5"],
        ),
        (
            SCHEMA | {"model": {"batches": {"kind": "cyclic", "size": 9, "cap": 12}}},
            ["cap", "balls_in_bins or poisson"],
        ),
    ],
)
def test_bad_schemas(folder: Path, table: dict[str, Any], mentions: list[str]) -> None:
    write_schema(table)
    assert_refused(train(), *mentions)


@pytest.mark.parametrize(
    ("table", "batches"),
    [
        ({"kind": "fixed_size", "size": 256}, pabi.FixedSize(256)),
        ({"kind": "poisson", "size": 256}, pabi.Poisson(256)),
        ({"kind": "poisson", "size": 256, "cap": 400}, pabi.Poisson(256, cap=400)),
    ],
)
def test_random_batches_in_a_schema(folder: Path, table: dict[str, Any], batches: Any) -> None:
    write_schema(SCHEMA | {"model": {"batches": table}})
    schema = read_schema("schema.toml", "logistic")
    assert schema.settings == {"batches": batches}
    assert schema.estimator().batches == batches


def test_malformed_toml(folder: Path) -> None:
    Path("schema.toml").write_text("[columns\nage = 3\n", encoding="utf-8")
    assert_refused(train(), "schema.toml", "malformed TOML", "line 1")


def test_a_poisson_range_starts_at_zero(folder: Path) -> None:
    write_schema({"columns": COLUMNS, "target": {"range": [1, 8]}})
    assert_refused(train(target="children", model="poisson"), "target.range", "largest count")


@pytest.mark.parametrize("module", ["skops.io", "pandas", "pyarrow.parquet"])
def test_what_is_not_installed_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    people(9).to_parquet("people.parquet")
    monkeypatch.setitem(__import__("sys").modules, module, None)
    data = "people.parquet" if module.startswith("pyarrow") else "people.csv"
    assert_refused(train(data=data), module.partition(".")[0], "pip install '.[train]'")


def adult(part: str) -> Any:
    """Adult under the names of the example, `part` "train" or "test"."""
    names = [
        "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
        "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
        "native-country", "income",
    ]  # fmt: skip
    path = data_file(f"adult-{part}.csv")
    frame = pandas.read_csv(path, names=names, skipinitialspace=True, comment="|")
    return frame.assign(income=frame.income.str.rstrip("."))


def test_the_adult_example(folder: Path) -> None:
    test = adult("test")
    adult("train").to_csv("adult.csv", index=False)
    line = next(
        line for line in ADULT.read_text(encoding="utf-8").splitlines() if "adult.csv" in line
    )
    assert line == "#   pabi train adult.csv --schema examples/adult-schema.toml --target income \\"
    result = train(data="adult.csv", target="income", schema=str(ADULT), delta="1e-6")
    assert (result.status, result.err) == (0, "")
    assert run("verify", "g.json", "--epsilon", "1", "--delta", "1e-6").status == 0
    accuracy = np.mean(load().predict(test) == test.income)
    majority = np.mean(test.income == "<=50K")
    assert accuracy > majority + 0.06


def test_a_training_that_takes_long_says_so_where_no_bar_is_shown(tmp_path, monkeypatch, capsys):
    """A billion epochs, asked for by mistake or in a script, must not run for years in silence."""
    now = iter([0.0, 1.0, 3.0, 4.0])
    monkeypatch.setattr(training.time, "monotonic", lambda: next(now))
    listen = training.time_left()
    for over in (1, 2, 4, 5):
        listen(over, 10**12)
    assert capsys.readouterr().err == "training: about 3.2e+04 years left for 999999999996 steps\n"
    monkeypatch.setattr(training.time, "monotonic", itertools.count(0.0, 1.0).__next__)
    listen = training.time_left()
    for over in range(1, 30):
        listen(over, 30)
    assert capsys.readouterr().err == ""

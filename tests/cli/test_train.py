"""`pabi train`: a model and a guarantee from a table, or one line that says what is wrong."""

import itertools
import json
import sys
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pytest
import tomli_w

import pabi
from pabi.cli import training
from pabi.cli.predicting import load_model
from pabi.cli.schema_file import schema_of, schema_text
from support import tables
from support.data import data_file
from support.every_case import every
from support.run_files import EXAMPLES
from support.tables import assert_one_line, files, run

pandas = pytest.importorskip("pandas", reason="needs pandas: pip install '.[train]'")
skops = pytest.importorskip("skops.io", reason="needs skops: pip install '.[train]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[train]'")

ADULT = EXAMPLES / "adult-schema.toml"
COLUMN = {"kind": "numeric", "range": [20, 60]}
COLUMNS = {
    "age": COLUMN,
    "job": {"kind": "categorical", "levels": ["clerk", "smith"]},
    "citizen": {"kind": "boolean"},
}
SCHEMA = {"columns": COLUMNS}
CLASSES = SCHEMA | {"target": {"levels": ["no", "yes"]}}
REGRESSION = SCHEMA | {"target": {"range": [0, 8]}}


def people(n=3000):
    """People, and a count that follows from their age."""
    frame = tables.people(n)
    counts = np.random.default_rng(7).poisson(np.exp((frame.age - 40) / 20))
    return frame.assign(children=counts.clip(max=8))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, with `people.csv` and `schema.toml`."""
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    write_schema(SCHEMA)


def write_schema(table):
    Path("schema.toml").write_text(tomli_w.dumps(table), "utf-8")


def train(*more, data="people.csv", **changes):
    """`pabi train` with usual options, `changes` in their place."""
    return tables.train(data, more=more, **changes)


def load(path="model.skops"):
    return skops.load(path, trusted=skops.get_untrusted_types(file=path))


def assert_refused(result, *mentions):
    """One line that mentions these, and nothing written."""
    assert_one_line(result, *mentions)
    assert not {name for name in files() if name.startswith(("model", "g.json", "."))}


def test_a_model_and_its_guarantee():
    result = train("--no-progress")
    assert (result.status, result.err) == (0, "")
    assert "records      3000\nepsilon      1 at delta 0.0001\nmu  " in result.out
    assert "adjacency    replace_one\nassumptions\n" in result.out
    assert "was declared without looking at the data" in result.out
    frame, model = people(), load()
    # Chance is 0.5, with a standard deviation of 0.009.
    assert np.mean(model.predict(frame.drop(columns="rich")) == frame.rich) > 0.85
    assert model.predict({"age": [60], "job": ["smith"], "citizen": ["no"]}).tolist() == ["yes"]
    assert model[-1].feature_norm == pytest.approx(3**0.5, abs=1e-3)  # rows keep their length

    stated = json.loads(Path("g.json").read_text("utf-8"))
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


def test_nothing_but_the_model_depends_on_the_data():
    said = train()
    frame = people()
    frame["rich"] = frame.rich.to_numpy()[::-1]  # to be predicted hardly better than by chance
    frame.to_csv("people.csv", index=False)
    assert train("--force") == said


@pytest.mark.parametrize("model", ["linear", "huber", "poisson", "gamma", "kernel-regression"])
def test_regression_in_the_units_of_the_target(model):
    write_schema(REGRESSION)
    assert train("--seed", "5", target="children", model=model, epsilon="4").status == 0
    pipeline, frame = load(), people()
    fitted, rows = pipeline[-1], pipeline[0].transform(frame)
    stated = {"epsilon": 4.0, "delta": 1e-4, "target_range": (0, 8), "random_state": 5}
    again = type(fitted)(feature_norm=fitted.feature_norm, **stated).fit(rows, frame.children)
    assert again.run_ == fitted.run_
    assert np.array_equal(again.predict(rows), pipeline.predict(frame))
    assert "target_range is public" in fitted.guarantee_.assumptions
    errors = pipeline.predict(frame) - frame.children
    assert np.mean(errors**2) < 0.8 * np.var(frame.children)


@every("model", ["linear", "gamma"])
def test_a_range_that_nobody_knows_is_found(model):
    write_schema(SCHEMA | {"target": {"range": "private"}})
    options = ("--epsilon", "4", "--delta", "1e-4", "--model", model, "--one-row-each")
    said = run("plan", "--schema", "schema.toml", "--rows", "3000", *options)
    assert "target range     31 noisy counts" in said.out
    said = train("--force", target="children", model=model, epsilon="4")
    assert (said.status, said.err) == (0, "")
    fitted = load()[-1]
    assert 1.0 < fitted.target_range_[1] <= 16.0
    assert run("verify", "g.json", "--model", "model.skops").status == 0
    said = run("plan", "--schema", "schema.toml", "--users", "3000", *options[:-1])
    assert "3000 users" in said.out
    assert "target range     31 noisy counts" in said.out


def test_classes_keep_their_type():
    people().assign(rich=lambda frame: np.where(frame.rich == "yes", 2, 1)).to_csv(
        "people.csv", index=False
    )
    assert train().status == 0
    assert load().classes_.tolist() == [1, 2]
    write_schema(SCHEMA | {"target": {"levels": [1, 2, 3]}})
    result = train("--force", model="svc")
    assert result.status == 0
    assert "label set" not in result.out
    assert load().classes_.tolist() == [1, 2, 3]


def test_settings_come_from_the_schema_and_options_go_first():
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


def test_what_exceeds_the_schema_is_said_on_standard_error_only():
    norms = train("--feature-norm", "0.5")
    assert norms.status == 0
    assert norms.err.count("\n") == 1
    assert "keep it to yourself" in norms.err
    write_schema({"columns": COLUMNS | {"age": {"kind": "numeric", "range": [30, 50]}}})
    result = train("--force")
    assert result.status == 0
    assert result.err.startswith("warning: some cells are outside the declared ranges")
    assert result.err.count("\n") == 1
    assert b"keep it" not in Path("model.skops").read_bytes()
    assert "keep it" not in Path("g.json").read_text("utf-8")


def test_a_seed_is_for_tests():
    result = train("--seed", "3")
    assert result.status == 0
    assert result.err.startswith("warning: random_state was given")
    assert "noise reproducible: testing only" in result.out
    assert run("verify", "g.json", "--epsilon", "1", "--delta", "1e-4").status != 0


@pytest.mark.parametrize("users", [(), ("--groups", "who", "--users", "500")])
@pytest.mark.parametrize("model", ["logistic", "poisson"])
def test_a_folder_for_rows_gives_what_memory_gives(model, users):
    frame = people().assign(who=np.arange(3000) % 500)
    frame.to_csv("people.csv", index=False)
    frame.to_parquet("people.parquet")
    write_schema(CLASSES if model == "logistic" else REGRESSION)
    options = {"target": "rich" if model == "logistic" else "children", "model": model}
    options["data"] = "people.csv" if users else "people.parquet"
    own = train("--seed", "1", *users, **options)
    expected = load()[-1].coef_
    assert train("--seed", "1", "--force", "--scratch", ".", *users, **options) == own
    assert np.max(np.abs(load()[-1].coef_ - expected)) <= 1e-12 * np.max(np.abs(expected))


def test_passes_need_declared_labels_files_and_a_folder():
    assert_refused(train("--scratch", "."), "target.levels: missing: --scratch needs the levels")
    write_schema(CLASSES)
    assert_refused(train("--scratch", ".", data="-"), "standard input: is read once")
    assert_refused(train("--scratch", "nowhere"), "scratch: cannot write to nowhere")


def test_files_are_not_overwritten_unless_asked():
    assert train().status == 0
    before = Path("model.skops").read_bytes()
    assert_one_line(train(), "model.skops: exists already")
    assert Path("model.skops").read_bytes() == before
    assert train("--force").status == 0
    assert Path("model.skops").read_bytes() != before
    assert files() == {"people.csv", "schema.toml", "model.skops", "g.json"}


@every(
    "changes, mentions",
    [
        ({"schema": "none.toml"}, ["none.toml"]),
        ({"target": "rihc"}, ["'rihc'", "did you mean 'rich'"]),
        ({"target": "age"}, ["--target", "[columns.age]"]),
        ({"epsilon": "0"}, ["--epsilon", "> 0"]),
        *(({"epsilon": odd}, ["--epsilon", f"'{odd}'"]) for odd in ("-1", "inf")),
        *(({"delta": "0"}, ["--delta", "> 0"]), ({"delta": "1"}, ["--delta", "'1'"])),
        *(({"epochs": "0"}, ["--epochs", "> 0"]), ({"feature-norm": "-1"}, ["--feature-norm"])),
        ({"model": "forest"}, ["--model", "'forest'", "logistic"]),
        ({"model": "linear"}, ["schema.toml: target.range", "missing"]),
        ({"epochs": "many"}, ["--epochs", "'many'"]),
        ({"adjacency": "add_or_remove_one"}, ["adjacency", "zero_out"]),
        ({"seed": "x"}, ["--seed"]),
        ({"out": "nowhere/model.skops"}, ["nowhere/model.skops", "existing folder"]),
        ({"guarantee": "nowhere/g.json"}, ["nowhere/g.json", "existing folder"]),
        ({"guarantee": "model.skops"}, ["files of their own"]),
    ],
)
def test_bad_options(changes, mentions):
    assert_refused(train(**changes), *mentions)


def test_a_target_that_is_no_epsilon():
    """The model says what it was asked for, is loaded as any other, and its settings are part of its hash."""
    write_schema(CLASSES)
    required = ["--schema", "schema.toml", "--target", "rich", "--delta", "1e-5", "--seed", "1"]
    words = ["train", "people.csv", *required, "--out", "model.skops", "--guarantee", "g.json"]
    result = run(*words, "--mu", "0.5", "--no-progress")
    assert result.status == 0, result.err
    assert "(target 0.5)" in result.out
    fitted = load_model("model.skops").last
    assert fitted.epsilon == pabi.Target(mu=0.5)
    assert 0.499 < fitted.epsilon.cost(fitted.guarantee_) <= 0.5
    before = pabi.learn.model_hash(fitted)
    fitted.epsilon = pabi.Target(mu=0.6)
    assert pabi.learn.model_hash(fitted) != before
    assert_one_line(run(*words, "--mu", "0.5", "--keep-state", "s", "--force"), "--keep-state")


def test_options_that_are_needed():
    assert_refused(run("train", "people.csv"), "Missing option")
    required = ["--schema", "schema.toml", "--target", "rich", "--out", "model", "--guarantee", "g"]
    assert_refused(run("train", "people.csv", *required), "--epsilon", "missing")
    assert_refused(train("--force", out="people.csv"), "files of their own")
    assert_refused(train("--force", out="."), "got a folder")


def test_names_that_are_not_declared_are_not_shown():
    """The first line may be somebody's record, of which a hint would show a cell."""
    _, *rows = Path("people.csv").read_text("utf-8").splitlines()
    text = "\n".join(["no,ages,jobs,citizens,rihc,kids", *rows])
    Path("people.csv").write_text(text, "utf-8")
    result = train()
    assert_refused(result, "people.csv", "expected a first line with the names of columns")
    for word in ("did you mean", "the first line looks like data", "rihc"):
        assert word not in result.err


def rows(**cells):
    """Three sound people as CSV, and a fourth with these cells."""
    sound = {"age": "30", "job": "smith", "citizen": "yes", "rich": "no", "children": "2"}
    lines = [sound, sound | {"rich": "yes"}, sound, sound | cells]
    return "\n".join([",".join(sound), *(",".join(line.values()) for line in lines)]) + "\n"


@every(
    "content, mentions",
    [
        *((odd, ["expected a CSV table"]) for odd in (b"", b"\x00\xff\xfe\x80 nothing like it")),
        (b"age,job,citizen,rich\n30,smith,a,b,c\n40,smith,d,e,f\n", ["expected a CSV table"]),
        (rows(job="smith,clerk").encode(), ["expected a CSV table", "line 5"]),
        (rows(rich="nan").encode(), ["rich", "every row"]),
        (b"age,job,citizen,rich,age\n30,smith,yes,no,3\n", ["several", "'age'"]),
        (rows(age="secret-7").encode(), ["age", "numeric column"]),
        (rows(citizen="secret-7").encode(), ["citizen", "boolean column"]),
        (rows(rich="").encode(), ["rich", "every row"]),
        (rows()[: rows().index("yes,2")].encode() + b"no,2\n", ["rich", "one class only"]),
    ],
)
def test_bad_tables(content, mentions):
    Path("people.csv").write_bytes(content)
    result = train()
    assert_refused(result, *mentions)
    assert "secret-7" not in result.err


def test_bad_amounts():
    write_schema(REGRESSION)
    for model, cell in itertools.product(
        ["linear", "huber", "poisson"], ["", "nan", "inf", "secret-7"]
    ):
        Path("people.csv").write_text(rows(children=cell), "utf-8")
        result = train(target="children", model=model)
        assert_refused(result, "children")
        assert "secret-7" not in result.err
    Path("people.csv").write_text(rows(children="-1"), "utf-8")
    assert_refused(train(target="children", model="poisson"), "children", "counts ≥ 0")
    write_schema(SCHEMA | {"target": {"range": [1, 8]}})
    said = train(target="children", model="poisson")
    assert_refused(said, "target.range", "largest count")
    write_schema(SCHEMA | {"target": {"range": [-1, 8]}})
    said = train(target="children", model="gamma")
    assert_refused(said, "target.range", "no negative number")


def test_targets_are_read_by_the_rules_of_the_schema():
    cells = np.array(["Yes ", "no", "NO"], dtype=object)
    text = tomli_w.dumps(CLASSES | {"target": {"levels": ["no", "yes"], "case": "any"}})
    labels = schema_of("s.toml", text, "logistic").targets("rich", cells)
    assert labels.tolist() == ["yes", "no", "no"]
    text = tomli_w.dumps(SCHEMA | {"target": {"range": [0, 8], "decimal": ","}})
    amounts = schema_of("s.toml", text, "linear").targets("stay", np.array(["2,5", 3], object))
    assert amounts.tolist() == [2.5, 3.0]


def test_dates_of_toml_are_text_in_the_model():
    when = {"kind": "date", "range": [date(2024, 1, 1), datetime(2024, 12, 31, 12)]}
    write_schema(SCHEMA | {"columns": {"when": when, "age": COLUMN}, "target": CLASSES["target"]})
    table = people(300).assign(when="2024-03-01")
    table.loc[7, "when"] = "the first of March"
    table.to_csv("people.csv", index=False)
    assert train().status == 0
    encoder = load_model("model.skops").encoder
    assert encoder.columns["when"]["range"] == ["2024-01-01", "2024-12-31T12:00:00"]
    assert (
        run("predict", "model.skops", "people.csv", "--schema", "schema.toml", "--out", "-").status
        == 0
    )


POISSON = {"kind": "poisson", "size": 9}


@every(
    "name, table, mentions",
    [
        ("columns", None, ["columns", "[columns.NAME]"]),
        ("columns", {"age": COLUMN | {"rang": 3}}, ["columns.age.rang", "did you mean range"]),
        ("columns", 3, ["columns", "expected a table"]),
        ("columns", {"age": COLUMN | {"range": [60, 20]}}, ["columns.age.range"]),
        ("target", {"levels": ["no", "No"], "case": "any"}, ["target.levels", "distinct"]),
        *(
            ("model", {name: 1}, [name, "unknown key in [model]"])
            for name in ("random_state", "ledger")
        ),
        *(
            ("model", {name: odd}, [name, repr(odd)])
            for name, odd in (("l2", -1.0), ("epochs", "some"), ("intercept_scaling", "big"))
        ),
        ("batches", "cyclic", ["batches", "'cyclic'"]),
        ("batches", {"kind": "cyclic", "size": 5000}, ["1..n = 3000"]),
        ("batches", POISSON | {"cap": 5}, ["cap", "got 5"]),
        ("batches", POISSON | {"kind": "cyclic", "cap": 12}, ["cap", "balls_in_bins or poisson"]),
        ("age", COLUMN, ["age", "[columns.age]"]),
        ("colums", {}, ["colums", "did you mean columns"]),
        ("levels", ["a"], ["levels", "belongs to [target]"]),
        ("epochs", 3, ["epochs", "belongs to [model]"]),
        ("target", {"l2": 1.0}, ["l2", "belongs to [model]"]),
        ("target", {"level": ["a"]}, ["level", "did you mean levels"]),
        ("target", {"levels": ["yes"]}, ["target.levels", "2 or more"]),
        ("target", {"levels": ["yes", "maybe"]}, ["rich", "target.levels"]),
        ("target", {"range": [0, 1]}, ["target.range", "--model logistic"]),
        ("target", {"decimal": ","}, ["target.decimal", "--model logistic"]),
        ("model", {"range": [0, 1]}, ["range", "belongs to [target]"]),
        ("model", {"epoch": 3}, ["epoch", "did you mean epochs"]),
        ("model", {"smoothing": 1.0}, ["model.smoothing", "--model svc"]),
        ("model", {"epsilon": 1.0}, ["epsilon", "unknown key in [model]"]),
        ("model", {"fit_intercept": 2}, ["model.fit_intercept", "true or false"]),
        ("batches", POISSON | {"l2": 1.0}, ["model.batches.l2", "settings go above it"]),
        ("batches", POISSON | {"caps": 12}, ["model.batches.caps", "kind, size and cap"]),
    ],
)
def test_bad_schemas(name, table, mentions):
    changed = SCHEMA | ({"model": {name: table}} if name == "batches" else {name: table})
    write_schema({key: value for key, value in changed.items() if value is not None})
    assert_refused(train(), *mentions)


def test_random_batches_in_a_schema_and_malformed_ones():
    for batches in (pabi.FixedSize(256), pabi.Poisson(256), pabi.Poisson(256, cap=400)):
        capped = {"cap": 400} if getattr(batches, "cap", None) else {}
        write_schema(SCHEMA | {"model": {"batches": {"kind": batches.kind, "size": 256} | capped}})
        schema = schema_of("schema.toml", schema_text("schema.toml"), "logistic")
        assert schema.settings == {"batches": batches}
        assert schema.estimator().batches == batches
    Path("schema.toml").write_text("[columns\nage = 3\n", "utf-8")
    assert_refused(train(), "schema.toml", "malformed TOML", "line 1")


@every("module", ["skops.io", "pandas", "pyarrow.parquet"])
def test_what_is_not_installed_is_named(module):
    people(9).to_parquet("people.parquet")
    data = "people.parquet" if module.startswith("pyarrow") else "people.csv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module, None)
        assert_refused(train(data=data), module.partition(".")[0], "pip install '.[train]'")


def adult(part):
    """Adult under the names of the example, `part` "train" or "test"."""
    names = (
        "age workclass fnlwgt education education-num marital-status occupation relationship race "
        "sex capital-gain capital-loss hours-per-week native-country income"
    )
    path = data_file(f"adult-{part}.csv")
    frame = pandas.read_csv(path, names=names.split(" "), skipinitialspace=True, comment="|")
    return frame.assign(income=frame.income.str.rstrip("."))


def test_the_adult_example():
    test = adult("test")
    adult("train").to_csv("adult.csv", index=False)
    lines = ADULT.read_text("utf-8").splitlines()
    line = "#   pabi train adult.csv --schema examples/adult-schema.toml --target income \\"
    assert line == next(line for line in lines if "adult.csv" in line)
    result = train(data="adult.csv", target="income", schema=str(ADULT), delta="1e-6")
    assert (result.status, result.err) == (0, "")
    assert run("verify", "g.json", "--epsilon", "1", "--delta", "1e-6").status == 0
    accuracy = np.mean(load().predict(test) == test.income)
    assert accuracy > np.mean(test.income == "<=50K") + 0.06


def test_a_training_that_takes_long_says_so_where_no_bar_is_shown(monkeypatch, capsys):
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

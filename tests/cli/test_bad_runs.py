"""Run files, certificates and options that are wrong: one line that names what is, and no traceback.

What is done to certificates is tested where all readers are, in tests/fuzz.
"""

import math

import tomli_w
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from support.every_case import every
from support.run_files import ITERATED, RUN, read_json, sampler, toml
from support.tables import assert_one_line, run

HUGE = 10**400
CYCLIC, LOGISTIC = RUN["batches"], RUN["loss"]


def account(stdin):
    return run("account", "-", "--delta", "1e-5", stdin=stdin)


# What tables get wrong is tested with the descriptions; here are some, and what only files have.
BAD_RUNS = [
    (RUN, {"n": "abc"}, "n: ", "'abc'"),
    (RUN, {"n": HUGE}, "n: "),
    (RUN, {"step_size": [HUGE] * 20}, "step_size: "),
    (RUN, {"step_size": [0.1] * 19 + [math.nan]}, "step_size: ", "nan", "step 20"),
    (RUN, {"loss": LOGISTIC | {"kind": "logistik"}}, "kind: ", "did you mean logistic?"),
    (RUN, {"loss": LOGISTIC | {"noise_std": 1}}, "noise_std: ", "move it above the first table"),
    (RUN, {"batches": CYCLIC | {"size": 1001}}, "size: ", "1001"),
    (RUN, {"epochs": None, "steps": 2.5}, "steps: ", "2.5"),
    (RUN, {"clip_norm": None, "loss": {"kind": "convex", "smoothness": 1.0}}, "clip_norm: "),
    (RUN, {"adjacency": "add_or_remove_one"}, "adjacency: ", "zero_out"),
    (RUN, {"nois_std": 1.0}, "nois_std: ", "noise_std"),
    (RUN, {"lr": 0.1}, "lr: ", "step_size=0.1"),
    (RUN, {"batches": CYCLIC | {"batch_size": 32}}, "batch_size: ", "size=32"),
    (RUN, {"a\nb\x1b[31m": 1.0}, "unknown key"),
    (ITERATED, {"contraction": None}, "contraction: "),
    (ITERATED, {"contraction": [HUGE, 1.0]}, "contraction: "),
    (ITERATED, {"step_noise_std": [0.1, -0.1]}, "step_noise_std: ", "-0.1", "step 2"),
    (dict.fromkeys(ITERATED, 0.5), {"kind": "noisy_iteration"}, "steps: ", "missing"),
]
BAD_SAMPLERS = [
    ("langevin_chain", {"step_size": None}, "step_size: missing: a langevin_chain needs it"),
    ("langevin_chain", {"steps": 0}, "steps"),
    ("langevin_chain", {"temperature": 1.0}, "write inverse_temperature=n"),
    ("langevin_diffusion", {"time": -1.0}, "time"),
    ("langevin_diffusion", {"inverse_temperature": "hot"}, "inverse_temperature"),
    ("exponential_mechanism", {"diameter": None}, "diameter: missing"),
    ("exponential_mechanism", {"inverse_temperature": 1.0}, "expected exactly one of"),
    ("iterated_exponential_mechanism", {"epsilons": []}, "epsilons"),
    ("iterated_exponential_mechanism", {"split": 5000}, "split"),
    ("noisy_second_moments", {"feature_norm": None}, "feature_norm: missing"),
    ("noisy_second_moments", {"noise_std": 1.0}, "expected at most one of"),
    ("noisy_second_moments", {"noise_multiplier": None}, "noise_std: missing"),
    ("noisy_second_moments", {"noise_multiplier": [1.0, 2.0]}, "noise_multiplier"),
    ("noisy_second_moments", {"diagonal": 1}, "diagonal: expected true or false"),
    ("noisy_second_moments", {"diagnoal": True}, "did you mean diagonal"),
]


def test_what_is_wrong_in_a_run_file_is_named():
    for name in ("n", "loss", "batches", "step_size", "noise_std"):
        assert_one_line(account(toml(RUN, **{name: None})), f"{name}: ", "missing")
    for base, changes, *mentions in BAD_RUNS:
        assert_one_line(account(toml(base, **changes)), *mentions)
    for kind, changes, said in BAD_SAMPLERS:
        assert_one_line(account(sampler(kind, **changes)), said)
    target = ("--epsilon", "1", "--delta", "1e-4")
    assert_one_line(run("calibrate", "-", *target, stdin=toml(ITERATED)), "kind", "noisy_sgd")
    words = ("calibrate", "-", *target, "--parameter", "noise_std")
    said = run(*words, stdin=sampler("langevin_chain"))
    assert_one_line(said, "expected one of inverse_temperature, steps")


@every(
    "arguments, mentions",
    [
        ("account -", "--delta --epsilon"),
        ("account - --delta abc", "--delta 'abc'"),
        ("account - --delta nan", "--delta 'nan'"),
        ("account - --delta 1", "--delta '1'"),
        ("account - --delta -1e-5", "--delta '-1e-5'"),
        ("account - --epsilon=", "--epsilon ''"),
        ("account - --epsilon -1", "--epsilon '-1'"),
        ("account - --epsilon inf", "--epsilon 'inf'"),
        ("account - --delta", "--delta"),
        ("account - --dleta 1", "--dleta"),
        ("account --delta 1e-5", "FILE"),
        ("account - other --delta 1e-5", "other"),
        ("explain -", "--delta missing"),
        ("calibrate - --delta 1e-5", "--epsilon missing"),
        ("calibrate - --epsilon 1", "--delta missing"),
        ("calibrate - --epsilon 0 --delta 1e-5", "--epsilon '0'"),
        ("calibrate - --epsilon 1 --mu 1 --delta 1e-5", "--epsilon exactly one of epsilon and mu"),
        ("calibrate - --tpr 0.1 --delta 1e-5", "--fpr missing"),
        ("calibrate - --tpr 0.1 --fpr 0.2 --delta 1e-5", "--tpr guessing"),
        ("calibrate - --advantage 0 --delta 1e-5", "--advantage '0'"),
        ("calibrate - --advantage 1 --delta 1e-5", "--advantage < 1"),
        ("calibrate - --mu 1", "--delta missing"),
        ("calibrate - --epsilon 1 --delta 1e-5 --parameter n", "--parameter 'n' noise_std"),
        ("verify - --epsilon -1", "--epsilon '-1'"),
        ("verify - --delta 1", "--delta '1'"),
        ("acount", "acount"),
        ("--nonsense", "--nonsense"),
        ("", "command"),
    ],
)
def test_bad_options(arguments, mentions):
    assert_one_line(run(*arguments.split(), stdin=toml(RUN)), *mentions.split())


def test_files_that_cannot_be_read(tmp_path):
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"n = 1\n\xff\xfe")
    target = ("--delta", "1e-5", "--epsilon", "1")
    for path, mention in (
        (tmp_path / "missing.toml", "No such file"),
        (tmp_path, "directory"),
        (binary, "UTF-8"),
    ):
        for command in (["account"], ["explain"], ["calibrate"], ["verify"]):
            more = target[: 2 if command == ["explain"] else 4]
            assert_one_line(run(*command, str(path), *more), str(path), mention)


def test_malformed_toml_and_json():
    for text, line in [
        *(("n = 1\nepochs =\n", "line 2"), ("n = 1\nn = 2\n", "line 2")),
        *(("n = 1\n\n[loss\n", "line 3"), ("n = 1\nloss = {", "line 2"), ("\x00", "line 1")),
    ]:
        assert_one_line(account(text), "standard input", "TOML", line)
    # Beyond what Python reads.
    for text in ("n = " + "1" * 5000, "n = " + "[" * 5000, "n = 0x" + "f" * 5000):
        assert_one_line(account(text), "standard input")
    for text in ["", "{", '{"a": NaN}', "[" * 100_000, "1" * 5000, "{'a': 1}", '{"a": 1}x']:
        assert_one_line(run("verify", "-", stdin=text), "standard input", "JSON")
    for text in ("{}", "[1]", "[]", "3", "null", '"x"'):
        said = run("verify", "-", stdin=text)
        assert_one_line(said, "error: standard input: expected a certificate or guarantee")


# Whatever the file contains.

NUMBERS = st.one_of(
    st.integers(-3, 50), st.sampled_from([10**5, HUGE, -HUGE]), st.floats(), st.booleans()
)
VALUES = st.recursive(
    st.one_of(
        NUMBERS,
        st.text(max_size=8),
        st.sampled_from(["cyclic", "logistic", "zero_out", "noisy_iteration", "path", "other"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["kind", "size", "cap", "f8", "l2"]), inner, max_size=3),
    ),
    max_leaves=5,
)
# Sizes of runs are left alone here, so that no example takes long.
FIELDS = """
adjacency clip_norm cooldown_steps diameter gradient_sensitivity kind loss batches n noise_multiplier
prox release start step_sensitivity update loss.kind loss.feature_norm loss.l2 loss.glm batches.kind
batches.size batches.cap prox.name prox.diameter unknown
"""


def assert_civil(result):
    assert result.status in (0, 1, 2)
    assert "Traceback" not in result.err
    if result.status == 2:
        assert result.out == ""
        assert result.err.count("\n") == 1


@settings(deadline=None)
@given(
    base=st.sampled_from([RUN, ITERATED]),
    changes=st.dictionaries(st.sampled_from(FIELDS.split()), VALUES, min_size=1, max_size=2),
    as_json=st.booleans(),
)
def test_no_value_gives_a_traceback(base, changes, as_json):
    table = {k: dict(v) if isinstance(v, dict) else v for k, v in base.items()}
    for name, value in changes.items():
        outer, _, inner = name.partition(".")
        if inner and isinstance(table.setdefault(outer, {}), dict):
            table[outer][inner] = value
        else:
            table[outer] = value
    try:
        file = tomli_w.dumps(table)
    except ValueError:  # an integer that Python does not print
        reject()
    result = run("account", "-", "--delta", "1e-5", *(["--json"] if as_json else []), stdin=file)
    assert_civil(result)
    if result.status == 0 and as_json:
        assert read_json(result.out)["assumptions"]


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_no_bytes_give_a_traceback(raw):
    assert_one_line(account(raw))
    assert_civil(run("verify", "-", stdin=raw))

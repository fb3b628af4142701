"""The checker's tables are closed: what is in none of them is refused, by name."""

import copy
import itertools
import json
import re
from pathlib import Path

import pytest
from flint import ctx, fmpq

import pabi
from pabi import Cyclic, Loss, NoisySGD, Poisson, Reshuffle, ShuffleOnce
from pabi.describe.batches import SCHEMES as BATCHES
from pabi.verification import certificates, factors, losses, schemes, subjects, theorems
from pabi.verification.arithmetic import BITS, Refused
from pabi.verification.derivation import takes_plain_steps
from pabi.verification.losses import facts_of
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.schemes import KnownPositions, scheme_of
from pabi.verification.subjects import subject_of
from pabi.verification.theorem import gradients_changed, read_adjacency
from support.certificates import refused
from support.every_case import Agreeable

DATA = Path(__file__).parents[1] / "data" / "v0.1.0"
DELTA = 1e-5
# Nonexpansive steps, whatever the size of the batch.
FLAT = Loss.convex(1.0, gradient_bound=1.0)


def run_of(batches=None, **changes):
    given = {"loss": FLAT, "n": 100, "batches": batches or ShuffleOnce(30), "epochs": 3}
    return NoisySGD(**(given | {"step_size": 0.5, "noise_std": 0.1, "diameter": 3.0} | changes))


def payload_of(run):
    return run.guarantee(DELTA).certificate.payload


# Content of files.


def certificates_of(*files):
    return [json.loads((DATA / f"{file}.json").read_text())["certificate"] for file in files]


def test_an_unknown_theorem_is_refused_by_name():
    names = ("two-sided shift, improved", "", 7, None, ["composition"], {})
    files = ("cyclic", "poisson", "iteration", "diffusion", "gibbs", "chain", "composed")
    for payload, name in itertools.product(certificates_of(*files), names):
        refused(payload | {"theorem": name}, re.escape(f"theorem: the checker knows no {name!r}"))


def test_a_theorem_says_nothing_of_what_it_does_not_speak_of():
    """One case for every pair of a theorem and a kind of subject."""
    files = {
        "cyclic": "for these batches",
        "poisson": "for random batches",
        "iteration": "of an iteration",
        "diffusion": "of a diffusion",
        "gibbs": "of an exponential mechanism",
        "composed": "of several releases",
    }
    refusals = 0
    for file, words in files.items():
        payload = json.loads((DATA / f"{file}.json").read_text())["certificate"]
        with ctx.workprec(BITS):
            subject = type(subject_of(payload, certificates.check))
        assert words == subject.CALLED
        for name, theorem in theorems.table().items():
            if subject in theorem:
                continue
            refused(payload | {"theorem": name}, f"knows no {name!r} {words}")
            refusals += 1
    assert refusals > 40


def product(**factor):
    return {"kind": "product", "factors": [factor]}


CURVES = [
    {"kind": "staircase", "scale": 1.0},
    {"kind": 3},
    {"kind": ["gaussian"]},
    product(kind="staircase", scale=1.0, count=1),
    product(kind="product", factors=[], count=1),
    product(kind="best", parts=[], count=1),
    {"kind": "best", "parts": [{"kind": "staircase"}]},
    {"kind": "best", "parts": [{"kind": "best", "parts": []}]},
    {"kind": "subsampled", "mu": 9.0, "probability": 1.0},
]


def test_an_unknown_kind_of_factor_is_refused_by_name():
    (payload,) = certificates_of("gibbs")
    for curve in CURVES:
        inner = (curve.get("factors") or curve.get("parts") or [curve])[0]
        told = f"tradeoff: a certificate proves no {inner['kind']!r}"
        refused(payload | {"claim": {"tradeoff": curve}}, re.escape(told))


def test_unknown_batches_and_losses_are_refused_by_name():
    files = ("cyclic", "poisson", "chain", "diffusion", "gibbs")
    for key, table, name in (
        ("batches", {"kind": "sorted", "size": 10}, "'sorted'"),
        ("loss", {"kind": "hinge", "feature_norm": 1.0}, "'hinge'"),
    ):
        for payload in certificates_of(*files[: 3 if key == "batches" else 5]):
            for run in (payload["run"], *([payload["one"]["run"]] if "one" in payload else [])):
                run[key] = table
            refused(payload, "kind: ", name)


def test_an_unknown_adjacency_is_refused_by_name():
    files = ("cyclic", "poisson", "iteration", "diffusion", "composed")
    for payload, name in itertools.product(
        certificates_of(*files), ("add_remove", "REPLACE_ONE", "", None, 1, ["zero_out"])
    ):
        refused(payload | {"adjacency": name}, "adjacency: ", re.escape(repr(name)))
        if payload.get("run") and name != "REPLACE_ONE":  # by which descriptions mean replace_one
            table = payload["run"] | {"adjacency": name}
            refused(
                payload | {"adjacency": name, "run": table}, "adjacency: ", re.escape(repr(name))
            )


# Objects that a description may come to hold.


class Later(Cyclic):
    """Another order with the same fields."""


class LaterLoss(Loss):
    """Another loss with the same fields."""


class LaterRun(NoisySGD):
    """Another run with the same fields."""


@pytest.mark.parametrize("kind", [BATCHES[name] for name in BATCHES if name != "full_batch"])
def test_a_subclass_of_batches_is_refused_by_name(kind):
    later = type("LaterBatches", (kind,), {})
    assert scheme_of(kind(10), 100) is not None
    with pytest.raises(Refused, match="batches: the checker knows no LaterBatches"):
        scheme_of(later(10), 100)


def test_subclasses_inside_of_a_description_are_refused_by_name(monkeypatch):
    payload = payload_of(run_of(Cyclic(30)))
    assert pabi.verify(copy.deepcopy(payload)).ok

    def holding(field, value):
        """A run with a field that its constructor would have refused."""
        run = run_of(Cyclic(30))
        object.__setattr__(run, field, value)
        return run

    told = {
        "batches: the checker knows no Later": holding("batches", Later(30)),
        "loss: the checker knows no LaterLoss": holding(
            "loss", LaterLoss(FLAT.kind, FLAT.parameters)
        ),
        "run: the checker knows no LaterRun": LaterRun(**vars(run_of(Cyclic(30)))),
    }
    for words, run in told.items():
        with monkeypatch.context() as patch:
            patch.setattr(subjects, "from_dict", lambda table, run=run: run)
            refused(payload, words)


def test_unknown_kinds_and_parameters_of_losses_are_refused_by_name():
    for field, value, words in (
        ("kind", "hinge", "loss: the checker knows no 'hinge'"),
        ("parameters", (("feature_norm", 1.0), ("tilt", 2.0)), "loss: the checker knows no 'tilt'"),
    ):
        loss = Loss.logistic(1.0)
        object.__setattr__(loss, field, value)
        with pytest.raises(Refused, match=words):
            facts_of(loss)


def test_classes_are_counted_exactly():
    """Of two to the 53 and one more the nearest double has one less."""
    many = 2**53 + 1
    assert facts_of(Loss.one_vs_rest(1.0, classes=many)).cone == fmpq(1, many)


def test_every_loss_and_every_scheme_of_the_library_is_known():
    """So that what is left out is left out on purpose."""
    from pabi.describe.losses import KINDS

    assert set(losses._KINDS) == set(KINDS)
    for name, kind in KINDS.items():
        assert set(losses._KINDS[name].parameters) == {*kind.required, *kind.optional}
    assert set(schemes._SCHEMES) == set(BATCHES.values())


@pytest.mark.parametrize(
    "update", ["other", "SGD", "", None, True, Agreeable("momentum"), object()]
)
def test_what_is_not_plain_noisy_sgd_takes_no_plain_steps(update):
    assert takes_plain_steps("sgd")
    assert not takes_plain_steps(update)
    run = run_of(Cyclic(30))
    object.__setattr__(run, "update", update)
    with pytest.raises(Refused, match="plain noisy SGD"):
        OrderedRun(run, scheme_of(run.batches, run.n)).assumptions(hidden=True)


def test_adjacencies_are_these_two():
    for value in ("remove", "", 3, None, b"zero_out"):
        with pytest.raises(Refused, match="adjacency: the checker knows no"):
            read_adjacency(value)
    assert [gradients_changed(x) for x in ("replace_one", "zero_out")] == [2, 1]


# Every file of a folder declares its own, once.


def test_a_theorem_that_two_files_declare_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(theorems, "__path__", [*theorems.__path__, str(tmp_path)])
    (tmp_path / "later.py").write_text("THEOREMS = {'a later theorem': {}}\n")
    found = theorems.table.__wrapped__()
    assert set(found) == {*theorems.table(), "a later theorem"}
    with pytest.raises(TypeError):
        found["another"] = {}
    (tmp_path / "again.py").write_text("THEOREMS = {'composition': {}}\n")
    with pytest.raises(ValueError, match="'composition' is declared twice"):
        theorems.table.__wrapped__()


@pytest.mark.parametrize("kind", ["approx_dp", "product", "best"])
def test_a_curve_that_two_kinds_read_is_an_error(tmp_path, monkeypatch, kind):
    (tmp_path / f"again_{kind}.py").write_text(
        "from pabi.verification.factors.closed_forms import PureFactors\n"
        "class Staircases(PureFactors):\n"
        f"    CURVES = {{'{kind}': ('epsilon', 'delta')}}\n"
        "FACTORS = (Staircases,)\n"
    )
    monkeypatch.setattr(factors, "__path__", [*factors.__path__, str(tmp_path)])
    monkeypatch.setattr(factors, "kinds", factors.kinds.__wrapped__)
    with pytest.raises(ValueError, match=f"'{kind}' is read by two kinds"):
        factors._by_curve.__wrapped__()


def test_the_largest_slope_over_all_sizes_of_a_batch_counts():
    run = run_of(step_size=1.0)
    known = {"size": 30, "period": 4, "usual_share": fmpq(1, 4), "last_share": fmpq(1, 4)}
    for fractions, slope in (
        ((fmpq(1),), 1),
        ((fmpq(0), fmpq(3)), 2),
        ((fmpq(3), fmpq(0)), 2),
        ((fmpq(0),), 1),
    ):
        scheme = KnownPositions(usual=fractions, last=(fmpq(0),), **known)
        derived = OrderedRun(run, scheme)
        assert [derived.slope(k) for k in range(4)] == [slope, slope, slope, 1]


@pytest.mark.parametrize("batches", [Reshuffle(30), Poisson(30)])
def test_a_position_is_known_where_uses_are(batches):
    run = run_of(batches, diameter=None, gradient_sensitivity=None, clip_norm=1.0)
    payload = payload_of(run)
    refused(payload | {"position": 0}, "position: ")

"""The checker's tables are closed: what is in none of them is refused, by name."""

import copy
import itertools
import json
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import pytest
from flint import arb, ctx, fmpq

import pabi
from pabi import Cyclic, Loss, NoisySGD, Poisson, Reshuffle, ShuffleOnce
from pabi.describe.batches import SCHEMES as BATCHES
from pabi.verification import certificates, factors, losses, schemes, subjects, theorems
from pabi.verification.arithmetic import BITS, Refused, exact
from pabi.verification.bounds import JointBound
from pabi.verification.derivation import ClippedGradients, takes_plain_steps
from pabi.verification.factors.closed_forms import Failure, Gaussians
from pabi.verification.losses import DerivedFacts, Function, facts_of, least_of
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.schemes import KnownPositions, SecretOnce, scheme_of
from pabi.verification.subjects import subject_of
from pabi.verification.theorem import gradients_changed, read_adjacency

DATA = Path(__file__).parents[1] / "data" / "v0.1.0"
DELTA = 1e-5
# Nonexpansive steps, whatever the size of the batch.
FLAT = Loss.convex(1.0, gradient_bound=1.0)


def run_of(batches=None, **changes):
    given = {
        "loss": FLAT,
        "n": 100,
        "batches": batches or ShuffleOnce(30),
        "epochs": 3,
        "step_size": 0.5,
        "noise_std": 0.1,
        "diameter": 3.0,
    }
    return NoisySGD(**(given | changes))


def payload_of(run):
    return run.guarantee(DELTA).certificate.payload


def refused(payload, *words):
    verdict = pabi.verify(copy.deepcopy(payload))
    assert not verdict.ok
    assert verdict.bounds == ()
    for word in words:
        assert word in verdict.reason, verdict.reason


# Content of files.


def certificates_of(*files):
    return [json.loads((DATA / f"{file}.json").read_text())["certificate"] for file in files]


def test_an_unknown_theorem_is_refused_by_name():
    names = ("two-sided shift, improved", "", 7, None, ["composition"], {})
    files = ("cyclic", "poisson", "iteration", "diffusion", "gibbs", "chain", "composed")
    for payload, name in itertools.product(certificates_of(*files), names):
        refused(payload | {"theorem": name}, f"theorem: the checker knows no {name!r}")


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
        refused(payload | {"claim": {"tradeoff": curve}}, told)


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
        refused(payload | {"adjacency": name}, "adjacency: ", repr(name))
        if payload.get("run") and name != "REPLACE_ONE":  # by which descriptions mean replace_one
            table = payload["run"] | {"adjacency": name}
            refused(payload | {"adjacency": name, "run": table}, "adjacency: ", repr(name))


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


def test_every_loss_and_every_scheme_of_the_library_is_known():
    """So that what is left out is left out on purpose."""
    from pabi.describe.losses import KINDS

    assert set(losses._KINDS) == set(KINDS)
    for name, kind in KINDS.items():
        assert set(losses._KINDS[name].parameters) == {*kind.required, *kind.optional}
    assert set(schemes._SCHEMES) == set(BATCHES.values())


class Quiet(str):
    """A string that says it is another."""

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


@pytest.mark.parametrize("update", ["other", "SGD", "", None, True, Quiet("momentum"), object()])
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


# A new file is all that a new entry takes.


def test_a_new_theorem_is_one_new_file(tmp_path, monkeypatch):
    (tmp_path / "later.py").write_text("THEOREMS = {'a later theorem': {}}\n")
    monkeypatch.setattr(theorems, "__path__", [*theorems.__path__, str(tmp_path)])
    found = theorems.table.__wrapped__()
    assert set(found) == {*theorems.table(), "a later theorem"}
    assert "a later theorem" not in theorems.table()
    with pytest.raises(TypeError):
        found["another"] = {}


def test_a_theorem_that_two_files_declare_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "again.py").write_text("THEOREMS = {'composition': {}}\n")
    monkeypatch.setattr(theorems, "__path__", [*theorems.__path__, str(tmp_path)])
    with pytest.raises(ValueError, match="'composition' is declared twice"):
        theorems.table.__wrapped__()


def test_a_file_that_declares_nothing_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "silent.py").write_text("")
    monkeypatch.setattr(theorems, "__path__", [*theorems.__path__, str(tmp_path)])
    with pytest.raises(AttributeError, match="THEOREMS"):
        theorems.table.__wrapped__()


STAIRCASE = """
from pabi.verification.factors.closed_forms import PureFactors

class Staircases(PureFactors):
    CURVES = {"%s": ("epsilon", "delta")}

FACTORS = (Staircases,)
"""


def test_a_new_kind_of_factor_needs_no_line_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "staircases.py").write_text(STAIRCASE % "staircase")
    monkeypatch.setattr(factors, "__path__", [*factors.__path__, str(tmp_path)])
    for cached in (factors.kinds, factors._by_curve, factors._by_key):
        monkeypatch.setattr(factors, cached.__name__, cached.__wrapped__)
    read = factors.read_alone({"kind": "staircase", "epsilon": 2.0, "delta": 0.0})
    assert read.entries == ((2.0, 1),)
    # It covers its own kind alone, and no ε of a product is computed from it.
    pure = factors.read_alone({"kind": "approx_dp", "epsilon": 2.0, "delta": 0.0})
    assert JointBound.of(read).missing(JointBound.of(pure)) is not None
    assert JointBound.of(read).missing(JointBound.of(read)) is None
    assert JointBound.of(read).epsilon(DELTA) == float("inf")


@pytest.mark.parametrize("kind", ["approx_dp", "product", "best"])
def test_a_curve_that_two_kinds_read_is_an_error(tmp_path, monkeypatch, kind):
    (tmp_path / f"again_{kind}.py").write_text(STAIRCASE % kind)
    monkeypatch.setattr(factors, "__path__", [*factors.__path__, str(tmp_path)])
    monkeypatch.setattr(factors, "kinds", factors.kinds.__wrapped__)
    with pytest.raises(ValueError, match=f"'{kind}' is read by two kinds"):
        factors._by_curve.__wrapped__()


def bins(batches, n, cap):
    """Every record in one of ⌈n/size⌉ batches by itself, with batches of any size up to `cap`."""
    period = -(-n // batches.size)
    share = fmpq(1, period)
    fractions = () if cap is None else (fmpq(0), fmpq(cap, batches.size))
    return SecretOnce(
        size=batches.size,
        period=period,
        usual=fractions,
        last=fractions,
        usual_share=share,
        last_share=share,
        tail=Fraction(0) if cap is None else Fraction(1, 8 * period),
        keys=("cap",),
    )


def test_a_new_scheme_is_one_new_entry(monkeypatch):
    """Weights, sizes of batches, failure and what a certificate states of them all come from it."""
    payload = payload_of(run_of())
    assert payload["theorem"] == "secret order"
    assert pabi.verify(copy.deepcopy(payload)).ok
    kinds = dict(schemes._SCHEMES) | {ShuffleOnce: bins}
    monkeypatch.setattr(schemes, "_SCHEMES", MappingProxyType(kinds))
    refused(payload, "weight: expected 1/4")
    for case in payload["cases"]:
        ((a, b),) = case["ranges"]
        case["weight"] = [*Fraction(b - a + 1, 4).as_integer_ratio()]
    mus = [(Fraction(*case["weight"]), case["mu"]) for case in payload["cases"]]
    curve = JointBound.of(Gaussians(tuple(mus))).curve()
    payload["claim"] = {"tradeoff": curve}
    refused(payload, "cap: missing")
    payload["cap"] = 60
    refused(payload, "failure: expected at least 0.125")
    entry = curve | {"count": 1}
    failing = {"kind": "product", "factors": [entry], "failure": 0.125}
    payload["claim"] = {"tradeoff": failing}
    verdict = pabi.verify(copy.deepcopy(payload))
    assert verdict.ok, verdict.reason
    assert verdict.bounds[0].get(Failure) == Failure(Fraction(1, 8))
    assert verdict.product.size == 1
    # A batch may be 200 records: steps of size 0.5 on 20/3 of a batch stretch distances.
    refused(payload | {"cap": 200}, "slope", "at least")
    # Composition charges for no step's slope: it needs no cap, and cannot fail.
    composition = {key: value for key, value in payload.items() if key not in ("cap", "steps")}
    composition |= {"theorem": "composition", "cases": [], "claim": {"mu": 99.0}}
    verdict = pabi.verify(composition)
    assert verdict.ok, verdict.reason
    monkeypatch.undo()
    refused(payload, "cap: unknown key")


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


def test_a_modulus_of_any_shape_may_be_a_row(monkeypatch):
    """ω(δ) = δ + eMδ^p, which is no √(κδ² + h) + e."""

    def rough(p):
        row = lambda step: Function(lambda z: z + arb(step) * 3 * z.sqrt())  # noqa: E731
        return DerivedFacts(bound=exact(p["constant"]), as_they_are=(row,))

    kinds = dict(losses._KINDS) | {"lipschitz": losses._Kind(("constant",), rough)}
    monkeypatch.setattr(losses, "_KINDS", MappingProxyType(kinds))
    run = NoisySGD(
        Loss.lipschitz(5.0, l2=0.5), 100, Cyclic(10), epochs=1, step_size=0.5, noise_std=1.0
    )
    with ctx.workprec(BITS):
        omega = least_of(ClippedGradients(run).rows(exact(0.5), fmpq(1, 2)))
        # kept = 3/4 and e = 1/3: δ + √δ, or δ + 2eL.
        for z, least in ((4.0, 0.75 * 6.0), (1e-4, 0.75 * 0.0101), (1e4, 0.75 * (1e4 + 10 / 3))):
            assert abs(omega(arb(z)) - least) <= 1e-12
        assert omega(arb(0)).is_zero()


@pytest.mark.parametrize("batches", [Reshuffle(30), Poisson(30)])
def test_a_position_is_known_where_uses_are(batches):
    run = run_of(batches, diameter=None, gradient_sensitivity=None, clip_norm=1.0)
    payload = payload_of(run)
    refused(payload | {"position": 0}, "position: ")

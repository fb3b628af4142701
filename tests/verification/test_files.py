"""Attacks on files: what they state beyond their proof, what they cost to read, and what outlives a check."""

import copy
import itertools
import json
import math
import pickle
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pabi
from pabi.describe.batches import Cyclic, FixedSize, ShuffleOnce
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.learn import PrivateLogisticRegression
from pabi.learn.estimators import ONE_FIT, PREPROCESSING
from pabi.numbers.encoding import parse_json
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import Gaussian
from pabi.tradeoff.certificate import Certificate
from pabi.tradeoff.guarantee import FORMAT, TESTING, Guarantee
from support.certificates import refused
from support.falsification.honest_files import honest_files
from support.falsification.hostile_files import zeros

OLD = Path(__file__).parents[1] / "data" / "v0.1.0"
OLD_FILES = sorted(OLD.glob("*.json"))
DELTA = 1e-5


def run_of(**changes):
    given = {"n": 1000, "batches": ShuffleOnce(150), "epochs": 4, "step_size": 0.5}
    return NoisySGD(Loss.logistic(1.0, l2=0.01), **(given | {"noise_std": 0.05} | changes))


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return PrivateLogisticRegression(epsilon=1.0, delta=DELTA, feature_norm=2.0).fit(
        X, (X[:, 0] > 0).astype(int)
    )


@pytest.fixture
def data():
    return run_of().guarantee(DELTA).to_dict(certificate=True)


# What a file states.


def test_whatever_a_file_states_is_proven_or_refused(data):
    for key, value, reason in (
        ("method", "composition", "method: "),
        ("method", "an audit", "method: "),
        ("source", "Nobody 2026, Thm 1", "method: "),
        ("composition", {"kind": "gaussian", "mu": 0.001}, "unknown key"),
        ("tuned_at", 1e-9, "unknown key"),
        ("candidates", [], "unknown key"),
        ("epsilon_at_1e-9", 0.1, "unknown key"),
        ("epsilon", 0.1, "epsilon: "),
        ("epsilon", -1.0, "epsilon: "),
        ("delta", 1e-30, "epsilon: "),
        ("mu", 0.1, "mu: "),
        ("adjacency", "zero_out", "adjacency: "),
        ("notes", "", "notes: "),
    ):
        refused(data | {key: value}, reason)
        refused(json.dumps(data | {key: value}), reason)


def test_sources_of_0_1_0_are_those_of_their_own_theorem():
    """They named no section of the theory. Each still stands for one theorem, and for no other."""
    old = json.loads((OLD / "shuffle-once.json").read_text("utf-8"))
    assert old["method"] == "secret order"
    assert "docs, " not in old["source"]
    assert pabi.verify(old).ok
    assert pabi.verify(old | {"source": f"{old['source']} (docs, Theory, 6, Theorem 5a)"}).ok
    known = "Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts"
    for other in (
        known,
        f"{known} (docs, Theory, 3, Theorem 1)",
        f"{old['source']} (docs, Errata)",
    ):
        refused(old | {"source": other}, "method: ")


def test_notes_say_what_they_like_and_nobody_reads_them(data):
    """Composition stood beside the proven numbers, and read 0.027 for 9.997."""
    data["notes"] = {"composition": {"kind": "gaussian", "mu": 1e-9}, "epsilon": 0.0, "x": [None]}
    guarantee = Guarantee.from_dict(data)
    assert pabi.verify(guarantee).ok
    assert guarantee.composition is None
    assert guarantee.epsilon(DELTA) == run_of().guarantee(DELTA).epsilon(DELTA)
    assert json.loads(guarantee.to_json())["notes"] == data["notes"]


def test_what_two_readers_could_read_differently_is_no_json(data):
    text = json.dumps(data)
    for old, new in (
        ('"mu": null', '"mu": null, "mu": 0.1'),
        ('"adjacency": "replace_one"', '"adjacency": "zero_out", "adjacency": "replace_one"'),
        ('"noise_std":', '"noise_std": 9.0, "noise_std":'),
        ('"delta": 1e-05', '"delta": 1e-400'),
        ('"epsilon":', '"epsilon": 1e999, "x":'),
    ):
        assert old in text
        for read in (pabi.verify, Guarantee.from_json):
            with pytest.raises(InvalidInput, match="^json: [^\n]*(twice|beyond)"):
                read(text.replace(old, new, 1))


def test_a_number_near_0_does_not_read_as_0():
    for text in ("1e-400", "-1e-999", "0.0000001e-320", "2e308"):
        with pytest.raises(InvalidInput, match="beyond the range"):
            parse_json(f'{{"mu": {text}}}')
    assert parse_json("[0.0, -0.0, 0e5, 0.000, 5e-324, 1.7976931348623157e308, 1e-320]")[0] == 0.0


# What a release rests on.


def test_every_assumption_of_every_file_is_needed(fitted):
    for guarantee in (fitted.guarantee_, run_of().guarantee(DELTA)):
        data = json.loads(guarantee.to_json())
        for sentence in data["assumptions"]:
            kept = [a for a in data["assumptions"] if a != sentence]
            refused(data | {"assumptions": kept}, "keeps silent about")
        assert pabi.verify(data | {"assumptions": [*data["assumptions"], "more"]}).ok
    assert {PREPROCESSING, ONE_FIT} <= set(fitted.guarantee_.assumptions)
    data = json.loads(fitted.guarantee_.to_json())
    del data["certificate"]["assumes"]
    refused(data, "assumes is missing")


def test_assumptions_survive_copies_compositions_and_files(fitted):
    other = run_of().guarantee(DELTA)
    both = pabi.compose(fitted.guarantee_, other)
    for g in (both, Guarantee.from_json(both.to_json()), pickle.loads(pickle.dumps(both))):
        assert {PREPROCESSING, ONE_FIT} <= set(g.assumptions)
        assert {PREPROCESSING, ONE_FIT} <= set(g.certificate.payload["assumes"])
        assert pabi.verify(g).ok
    data = json.loads(both.to_json())
    data["assumptions"].remove(PREPROCESSING)
    refused(data, "keeps silent about")
    testing = fitted.guarantee_.assuming(TESTING)
    assert testing.certificate is None
    assert testing.assumptions[0] == TESTING
    assert not pabi.verify(testing).ok


# What outlives a check.


LIES = {
    "curve": Gaussian(0.01),
    "adjacency": "zero_out",
    "method": "composition",
    "source": "nobody",
    "assumptions": (),
}
IMPLIED = {"besides": (), "tuned_at": 0.5, "notes": {"ε": 0.0}}


class TestVerifiedIsOfThisContent:
    """`verified` is True only of what the accepted certificate implies, as it is now."""

    @pytest.fixture
    def guarantee(self):
        found = pabi.Guarantee.from_json(honest_files()["new with more said"])
        assert not found.verified
        assert pabi.verify(found).ok
        assert found.verified
        return found

    def test_replaced(self, guarantee):
        for field, value in [*(LIES | IMPLIED).items(), ("curve", Gaussian(1.2498))]:
            changed, implied = replace(guarantee, **{field: value}), field in IMPLIED
            assert changed.verified is implied, field  # by the verdict that its proof has
            assert pabi.verify(changed).ok is implied, field
            assert guarantee.verified, field

    def test_set_in_place(self, guarantee):
        for field, value in LIES.items():
            honest = getattr(guarantee, field)
            object.__setattr__(guarantee, field, value)
            assert not guarantee.verified, field
            assert not pabi.verify(guarantee).ok, field
            object.__setattr__(guarantee, field, honest)
            assert pabi.verify(guarantee).ok, field

    def test_any_assumption_left_out(self, guarantee):
        said = guarantee.assumptions
        for k in range(len(said)):
            object.__setattr__(guarantee, "assumptions", said[:k] + said[k + 1 :])
            assert not guarantee.verified
        object.__setattr__(guarantee, "assumptions", (*said, "one more"))
        assert guarantee.verified

    def test_a_payload_is_a_copy(self, guarantee):
        guarantee.certificate.payload["claim"]["mu"] = 0.0
        guarantee.certificate.payload.clear()
        assert guarantee.verified
        assert pabi.verify(guarantee).mu == guarantee.mu

    def test_a_verdict_is_of_one_certificate(self, guarantee):
        proof, text = guarantee.certificate, guarantee.certificate.to_json()
        with pytest.raises(AttributeError):
            proof.verdict = pabi.verify(proof)
        forged = Certificate(proof.payload | {"claim": {"mu": 1e-9}})
        forged.accept(proof.verdict)
        assert not pabi.verify(forged).ok
        assert not forged.verdict.ok
        for other in (forged.to_json(), text.replace('"claim"', '"claim" ')):
            proof._text = other  # whoever does this has a verdict on nothing
            assert proof.verdict is None
            assert not guarantee.verified
        proof._text = text
        object.__setattr__(guarantee, "certificate", Certificate(proof.payload))
        assert not guarantee.verified

    def test_copies_are_verified_anew(self, guarantee):
        for again in [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))]:
            other = again(guarantee)
            assert not other.verified
            assert pabi.verify(other).ok
            assert other.verified

    def test_a_pickle_is_read_like_a_file(self, guarantee):
        text = guarantee.__getstate__()["json"]
        less = text.replace(repr(guarantee.mu), "0.01")
        assert less != text
        other = pabi.Guarantee.__new__(pabi.Guarantee)
        other.__setstate__({"json": less})
        assert not pabi.verify(other).ok
        assert not other.verified

    def test_no_other_class_says_that_it_was_verified(self, guarantee):
        class Says(Certificate):
            verdict = guarantee.certificate.verdict

        forged = Says(guarantee.certificate.payload | {"claim": {"mu": 1e-9}})
        with pytest.raises(InvalidInput, match="proof: expected a pabi certificate, got a Says"):
            replace(guarantee, proof=forged)

    def test_an_adjacency_is_one_of_three_words(self, guarantee):
        class Same(str):
            __slots__ = ()
            __hash__ = str.__hash__

            def __eq__(self, other):
                return True

        other = replace(guarantee, adjacency=Same(guarantee.adjacency))
        assert type(other.adjacency) is str
        assert replace(guarantee, adjacency="REPLACE_SPECIAL").adjacency == "zero_out"

    def test_refused_after_accepted(self, guarantee):
        """What was said last counts."""
        assert not pabi.verify(guarantee, seconds=-1.0).ok
        assert not guarantee.verified


# What it costs to read one.


def test_packed_arrays_do_not_unpack_beyond_the_limit(data):
    proof = data["certificate"]
    proof["run"]["step_size"] = zeros(1 << 29)
    refused(data, "unpacks to more numbers")
    refused(proof, "unpacks to more numbers")
    iteration = pabi.NoisyIteration(
        contraction=np.full(100, 0.9), step_sensitivity=1.0, step_noise_std=1.0
    ).guarantee(DELTA)
    small = iteration.certificate.payload
    assert pabi.verify(small).ok
    assert "unpacks to more" in pabi.verify(small, unpacked=100).reason


def test_many_small_arrays_count_together(data):
    data["certificate"]["cases"] = [
        case | {"q": zeros(1 << 23)} for case in data["certificate"]["cases"]
    ]
    data["certificate"]["cases"] *= 2
    assert not pabi.verify(data).ok


def test_numbers_too_large_to_go_through_are_a_verdict(data):
    """10¹¹ positions let a MemoryError escape."""
    for theorem, changes in itertools.product(
        ("shifted interpolation", "secret order", "nonlinear shifts", "composition"),
        (
            {"n": 10**11, "batches": {"kind": "cyclic", "size": 1}},
            {"n": 10**15, "batches": {"kind": "shuffle_once", "size": 1}},
            {"n": 10**11, "batches": {"kind": "reshuffle", "size": 1}},
            {"epochs": None, "steps": 10**11},
            {"epochs": None, "steps": 10**17},
            {"epochs": 10**9},
        ),
    ):
        proof = data["certificate"] | {"theorem": theorem, "alike": False}
        run = {k: v for k, v in (proof["run"] | changes).items() if v is not None}
        begun = time.process_time()
        assert not pabi.verify(proof | {"run": run}).ok, (theorem, changes)
        assert time.process_time() - begun < 10.0, (theorem, changes)


def test_what_is_no_object_or_of_another_version():
    for text in ("", "{", "[]", "7", "null", "[" * 5000, 5, None, [], 1.5, b"{}",
                 '{"format": ' + "1" * 5000 + "}"):  # fmt: skip
        with pytest.raises(InvalidInput):
            pabi.verify(text)


def test_other_formats_and_versions_are_refused_by_name(data):
    for form in ("pabi.something", None, []):
        with pytest.raises(InvalidInput, match="^format: "):
            pabi.verify(data | {"format": form})
    for version in (0, 3, 99, "2", 2.0, True, None):
        with pytest.raises(InvalidInput, match="^version: expected 1 or 2"):
            pabi.verify(data | {"version": version})
        inner = data | {"certificate": data["certificate"] | {"version": version}}
        refused(inner, "version: expected 1 or 2")


def test_objects_that_hold_themselves_are_refused(data):
    data["certificate"]["run"]["loss"]["l2"] = data
    refused(data, "depth: ")
    wide: dict = {"format": "pabi.certificate", "version": 2}
    wide["x"] = [wide] * 100
    refused(wide, "size: |depth: ")


def test_limits_are_arguments(data):
    text = json.dumps(data)
    assert pabi.verify(text, size=len(text)).ok
    assert "size: " in pabi.verify(text, size=len(text) - 1).reason
    assert "depth: " in pabi.verify(text, depth=3).reason
    varying = run_of(batches=Cyclic(150), step_size=np.linspace(0.5, 0.1, 28)).guarantee(DELTA)
    assert pabi.verify(varying, positions=28).ok
    assert "positions: " in pabi.verify(varying, positions=27).reason
    assert "time: " in pabi.verify(text, seconds=0.0).reason


def test_limits_are_numbers(data):
    """Compared with NaN no time is ever over, and other limits refused what is proven as malformed."""
    for name, value in (
        ("seconds", math.nan),
        ("seconds", "9"),
        ("positions", None),
        ("size", "1"),
        ("depth", 64.5),
        ("unpacked", -1),
    ):
        with pytest.raises(InvalidInput, match=f"^{name}: expected a"):
            pabi.verify(data, **{name: value})


@pytest.mark.parametrize(
    "error", [MemoryError(), RecursionError("deep"), ZeroDivisionError("x"), OSError("x")]
)
def test_whatever_happens_inside_is_a_verdict(data, monkeypatch, error):
    def fails(*args, **kwargs):
        raise error

    for place in ("check", "_acceptance"):
        with monkeypatch.context() as patch:
            patch.setattr(f"pabi.verification.{place}", fails)
            assert not pabi.verify(data).ok
            assert not pabi.verify(data["certificate"]).ok


def test_what_is_proven_of_records_is_not_of_users(data):
    assert data.pop("unit") == "record"  # which nobody said before there was another
    assert pabi.verify(data).ok
    data["unit"] = "user"
    assert pabi.Guarantee.from_json(json.dumps(data)).unit == "user"
    refused(data, "^unit: ")


def test_many_sentences_and_many_bounds_do_not_take_long(data):
    """Sentences were looked up in a list, and every claimed bound compared with every proven one."""
    many = [f"sentence {i}" for i in range(60_000)]
    data["certificate"]["assumes"] = many
    data["assumptions"] += many
    begun = time.process_time()
    assert pabi.verify(data).ok
    mechanism = pabi.ExponentialMechanism(
        Loss.logistic(1.0, l2=0.01), n=1000, dimension=3, diameter=2.0, epsilon=1.0
    ).guarantee(DELTA)
    file = pabi.compose(*[mechanism] * 30).to_dict(certificate=True)
    del file["epsilon"], file["delta"]
    loose = [{"kind": "gaussian", "mu": 100.0 + i} for i in range(2000)]
    assert pabi.verify(file | {"tradeoff": {"kind": "best", "parts": loose}}, seconds=3.0)
    assert time.process_time() - begun < 10.0


def test_interruptions_are_none(data, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("pabi.verification.check", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pabi.verify(data)


# Files of this version and of those before.


@pytest.mark.parametrize("part", range(6))
def test_files_of_0_1_0_verify_and_are_written_anew(part):
    for path in OLD_FILES[part::6]:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
        assert pabi.verify(text).ok, path
        assert data["version"] == 1
        if data["format"] != FORMAT:
            continue
        guarantee = Guarantee.from_json(text)
        assert pabi.verify(guarantee).ok
        assert guarantee.verified
        assert guarantee.mu == data["mu"]
        anew = guarantee.to_json()
        assert json.loads(anew)["version"] == 2
        assert pabi.verify(anew).ok
        assert Guarantee.from_json(anew).to_json() == anew


def test_there_is_a_file_of_every_theorem():
    def theorems(proof):
        inner = [*proof.get("parts", ()), *([proof["one"]] if "one" in proof else [])]
        return {proof["theorem"]}.union(*map(theorems, inner))

    found = set()
    for path in OLD_FILES:
        data = json.loads(path.read_text(encoding="utf-8"))
        found |= theorems(data.get("certificate", data))
    assert found >= {
        "composed", "composition", "shifted interpolation", "secret order", "nonlinear shifts",
        "one-sided shift", "two-sided shift", "nonlinear one-sided shift", "path", "last point",
        "bounded range", "Gibbs measure", "bounded range and Gibbs measure",
    }  # fmt: skip


def test_what_was_not_proven_in_0_1_0_is_a_note_now():
    data = json.loads((OLD / "cyclic.json").read_text(encoding="utf-8"))
    honest = Guarantee.from_dict(data)
    data["composition"]["mu"], data["tuned_at"] = 0.027, 1e-9
    altered = Guarantee.from_dict(data)
    assert (
        (altered.composition, altered.tuned_at)
        == (honest.composition, honest.tuned_at)
        == (None, None)
    )
    assert altered.notes["composition"] == data["composition"]
    refused(data | {"method": "composition"}, "method: ")
    refused(data | {"reviewed_by": "me"}, "unknown key")
    data["certificate"]["assumes"] = []
    refused(data, "unknown key")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_models_of_0_1_0_load_with_a_guarantee_that_verifies():
    import skops.io

    file = OLD / "estimator.skops"
    with (OLD / "estimator.pickle").open("rb") as stream:
        models = [pickle.load(stream)]
    models.append(skops.io.load(file, trusted=skops.io.get_untrusted_types(file=file)))
    for model in models:
        assert pabi.verify(model.guarantee_).ok
        assert "preprocessing used no private data" in model.guarantee_.assumptions  # its own words
        assert model.predict_proba(np.zeros((2, 4))).shape == (2, 2)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("part", range(6))
def test_files_of_0_2_0_are_read(part):
    files = sorted((OLD.parent / "v0.2.0").glob("*.json"))
    assert len(files) > 30
    for path in files[part::6]:
        text = path.read_text("utf-8")
        assert pabi.verify(text).ok, path
        if json.loads(text)["format"] == FORMAT:
            assert pabi.verify(Guarantee.from_json(text)).ok


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_what_version_0_2_0_trained_and_drew_is_read():
    import skops.io

    folder = OLD.parent / "v0.2.0"
    drawn = json.loads((folder / "drawn.json").read_text("utf-8"))["certificate"]
    assert drawn["run"]["rounding"] > 0.0
    file = folder / "estimator.skops"
    model = skops.io.load(file, trusted=skops.io.get_untrusted_types(file=file))
    assert pabi.verify(model.guarantee_).ok
    assert model.predict_proba(np.zeros((2, 3))).shape == (2, 3)


def test_signatures_of_0_2_0_are_read():
    pytest.importorskip("cryptography")
    from pabi.show.attesting import read_signatures

    file = OLD.parent / "v0.2.0" / "estimator.json"
    signed = file.with_name("estimator.json.sig").read_text("utf-8")
    (one,) = read_signatures(signed, file.read_bytes())
    assert one.standing.startswith("signed with the key ")
    (other,) = read_signatures(signed, file.read_bytes() + b" ")
    assert other.trouble is not None


@pytest.mark.filterwarnings("error")
def test_strange_numbers_warn_nobody():
    data = run_of(batches=FixedSize(50)).guarantee(DELTA).to_dict(certificate=True)
    for mu in (1e308, 5e-324, 1e-300, "inf"):
        changed = copy.deepcopy(data)
        for factor in changed["certificate"]["claim"]["tradeoff"]["factors"]:
            factor["mu"] = mu
        assert not pabi.verify(changed).ok


def test_the_command_line_reads_nothing_of_what_is_refused(tmp_path, monkeypatch):
    """It built 20 million empty lists before it looked at the size."""
    from pabi import cli
    from pabi.numbers import encoding

    file = tmp_path / "file.json"
    file.write_text('{"format":"pabi.guarantee","version":2,"notes":[' + "[]," * (3 << 20) + "[]]}")

    def read(text):
        raise AssertionError("it was read")

    monkeypatch.setattr(encoding, "parse_json", read)
    monkeypatch.setattr("pabi.verification.arithmetic.parse_json", read)
    assert cli.main(["verify", str(file)]) == 1


def test_sentences_of_a_guarantee_are_sentences(data):
    refused(data | {"assumptions": [*data["assumptions"], 7]}, "assumptions: ")
    cyclic = run_of(batches=Cyclic(100)).guarantee(DELTA).to_dict(certificate=True)
    refused(cyclic | {"certificate": data["certificate"]}, "tradeoff|mu|assumptions")

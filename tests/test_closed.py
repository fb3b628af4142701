"""What nobody has proven anything of is refused by everything, in one clear sentence.

Seven things may come from outside: a batch scheme, a loss, an update, a curve, a theorem, an adjacency, a
unit. Each comes as an object, a subclass that pretends to be one of ours, put where the constructors can no
longer see it, and as the content of a file. Each knocks at seven doors: account, explain, calibrate, train,
certificate, verify, command line.
"""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi import updates
from pabi.account.analyses.writing import RunProof
from pabi.account.best import Outcome, best_guarantee, best_of
from pabi.account.changes import explain
from pabi.cli import main
from pabi.describe.files import from_dict, to_dict
from pabi.learn import train
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.tradeoff import Gaussian
from pabi.tradeoff.certificate import Certificate
from support.every_case import Agreeable, every

DELTA = 1e-5
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(1.0, l2=0.1),
    n=100,
    batches=pabi.Cyclic(10),
    epochs=3,
    step_size=0.5,
    noise_std=0.5,
)
GUARANTEE = RUN.guarantee(DELTA)
FILE = json.loads(GUARANTEE.to_json())


# Strangers that pretend.


class StrangeBatches(pabi.Cyclic):
    """Answers like cyclic batches, and would get their guarantee."""

    kind = "strange"


class StrangeLoss(pabi.Loss):
    curvature = property(lambda self: (1.0, 1.0))
    gradient_bound = property(lambda self: 1e-9)


class StrangeUpdate(updates.SGD):
    kind = "strange"


class StrangeCurve(Gaussian):
    def epsilon(self, delta):
        return 0.0


class StrangeProof:
    """A valid body under the name of a theorem that nobody knows."""

    theorem = "strange"

    def written(self):
        return RunProof("composition", RUN, Gaussian(1.0)).written()


class StrangeRun(pabi.NoisySGD):
    """A description with a theorem of its own."""

    def guarantee(self, delta=DELTA, position=None):
        return GUARANTEE


def smuggled(field, value):
    """A run with a field that its constructor never saw."""
    run = copy.copy(RUN)
    object.__setattr__(run, field, value)
    return run


SMUGGLED = {
    "batch scheme": smuggled("batches", StrangeBatches(10)),
    "loss": smuggled("loss", StrangeLoss("logistic", (("feature_norm", 1.0),))),
    "update": smuggled("update", StrangeUpdate()),
    "theorem": StrangeRun(**{k: v for k, v in vars(RUN).items() if k != "total_steps"}),
    "adjacency": smuggled("adjacency", Agreeable("strange")),
    "unit": smuggled("unit", Agreeable("strange")),
}


def gradients(x, rows):
    raise AssertionError("the data was touched")


def of_run(run, door):
    """A description at one of the doors."""
    match door:
        case "account":
            return best_guarantee(run, DELTA)
        case "explain":
            return explain(run, DELTA)
        case "calibrate":
            return pabi.calibrate(run, 1.0, DELTA)
        case "train":
            return train(run, gradients, np.zeros(2))
        case "certificate":
            proof = RunProof("composition", run, Gaussian(1.0))
            return Certificate.of(proof, "replace_one")
        case "verify":
            proof = RunProof("composition", run, Gaussian(1.0))
            return pabi.verify(replace(GUARANTEE, proof=proof))
        case "command line":
            return on_the_command_line("account", json.dumps(to_dict(run)))


def of_curve(door):
    """A curve where one of ours would be."""
    match door:
        case "account":
            return replace(GUARANTEE, curve=StrangeCurve(0.1))
        case "explain":  # where it may be shown, and never is the guarantee
            explained = RUN.explain(DELTA, also=[lambda run: StrangeCurve(0.1)])
            assert explained.best.curve == GUARANTEE.curve
            strange = RunProof("composition", RUN, StrangeCurve(0.1))
            return best_of([Outcome("strange", strange, None, RUN)], DELTA)
        case "calibrate":
            return pabi.calibrate(StrangeCurve(0.1), 1.0, DELTA)
        case "train":
            return train(StrangeCurve(0.1), gradients, np.zeros(2))
        case "certificate" | "verify":  # what a proposal hopes for is not written
            strange = RunProof("composition", RUN, StrangeCurve(0.1))
            assert "claim" not in Certificate.of(strange, "replace_one").payload
            return pabi.verify({**FILE, "tradeoff": StrangeCurve(0.1).to_dict()})
        case "command line":
            return on_the_command_line("verify", json.dumps(StrangeCurve(0.1).to_dict()))


def of_theorem(door):
    """A proof of a theorem where one of ours would be; or, elsewhere, a description that brings its own."""
    match door:
        case "certificate":
            return replace(GUARANTEE, proof=StrangeProof()).certificate
        case "verify":
            return pabi.verify(replace(GUARANTEE, proof=StrangeProof()))
        case _:
            return of_run(SMUGGLED["theorem"], door)


def as_object(thing, door):
    match thing:
        case "curve":
            return of_curve(door)
        case "theorem":
            return of_theorem(door)
        case _:
            return of_run(SMUGGLED[thing], door)


# Files.


def run_file(thing):
    """A run file that says something strange."""
    table = to_dict(RUN)
    match thing:
        case "batch scheme":
            table["batches"]["kind"] = "strange"
        case "loss":
            table["loss"]["kind"] = "strange"
        case "curve":
            table["tradeoff"] = {"kind": "strange", "mu": 0.1}
        case _:  # update, theorem, adjacency, unit
            table[thing] = "strange"
    return table


def proof_file(thing):
    """A guarantee with its certificate, in which one thing is strange."""
    data = copy.deepcopy(FILE)
    match thing:
        case "curve":
            data["tradeoff"]["kind"] = "strange"
            data["certificate"]["claim"] = {"tradeoff": {"kind": "strange"}}
        case "theorem":
            data["certificate"]["theorem"] = "strange"
        case "adjacency" | "unit":
            data[thing] = "strange"
            data["certificate"]["run"][thing] = "strange"
        case _:
            data["certificate"]["run"] = run_file(thing)
    return data


def as_file(thing, door):
    match door:
        case "account" | "explain":
            return on_the_command_line(door, json.dumps(run_file(thing)))
        case "calibrate":
            return pabi.calibrate(from_dict(run_file(thing)), 1.0, DELTA)
        case "train":
            return train(from_dict(run_file(thing)), gradients, np.zeros(2))
        case "certificate":
            return pabi.verify(Certificate.from_dict(proof_file(thing)["certificate"]))
        case "verify":
            return pabi.verify(proof_file(thing))
        case "command line":
            return on_the_command_line("verify", json.dumps(proof_file(thing)))


def on_the_command_line(command, text):
    """What is said, where the status says no."""
    import contextlib
    import io
    import sys
    import tomllib

    import tomli_w

    if command != "verify":
        text = tomli_w.dumps(json.loads(text))
        tomllib.loads(text)
    out, err, stdin = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            options = [] if command == "verify" else ["--delta", "1e-5"]
            status = main([command, "-", *options])
    finally:
        sys.stdin = stdin
    assert status in (1, 2)
    said = err.getvalue() + out.getvalue()
    assert "Traceback" not in said
    raise InvalidInput(
        "file", said.strip().removeprefix("error: ").removeprefix("standard input: ")
    )


THINGS = ("batch scheme", "loss", "update", "curve", "theorem", "adjacency", "unit")
DOORS = ("account", "explain", "calibrate", "train", "certificate", "verify", "command line")


@pytest.mark.parametrize("door", DOORS)
@every("thing", THINGS)
@every("way", [as_object, as_file])
def test_what_is_not_known_is_refused(way, thing, door):
    try:
        found = way(thing, door)
    except (InvalidInput, NotApplicable) as no:
        said = str(no).removeprefix("file: ")
    else:
        assert not found.ok, "it was let in"
        said = found.reason
    assert "\n" not in said
    assert len(said) < 600
    # In a run file, a theorem or a curve is a key that no run has.
    assert "strange" in said.lower() or said.startswith(
        ("theorem: unknown key", "tradeoff: unknown key")
    )


# Other doors, other things.


def test_a_proof_about_a_record_proves_nothing_of_a_user():
    """`unit` says whom a guarantee protects; no certificate speaks of users."""
    assert not pabi.verify({**copy.deepcopy(FILE), "unit": "user"}).ok
    users = replace(GUARANTEE, unit="user")
    assert not pabi.verify(users).ok
    assert not users.verified
    assert not pabi.verify(pabi.compose(users, users)).ok


class StrangeGuarantee(pabi.Guarantee):
    """Has the certificate of another, and readings of its own."""

    def epsilon(self, delta):
        return 0.0

    def to_dict(self, certificate=False):
        return GUARANTEE.to_dict(certificate)


def test_no_subclass_of_a_guarantee_is_verified():
    from dataclasses import fields

    given = {f.name: getattr(GUARANTEE, f.name) for f in fields(GUARANTEE)}
    with pytest.raises(InvalidInput, match="StrangeGuarantee"):
        pabi.verify(StrangeGuarantee(**given))


class StrangeSensitivity(pabi.NoisySGD):
    sensitivity = property(lambda self: 1e-9)


def test_a_strange_description_has_no_normal_form():
    run = StrangeSensitivity(**{k: v for k, v in vars(RUN).items() if k != "total_steps"})
    with pytest.raises(InvalidInput, match="StrangeSensitivity"):
        run.iteration()


class ball(pabi.prox.ball):
    """By its name and numbers one of ours, and expanding."""

    def __call__(self, x, step_size):
        return 100.0 * np.asarray(x)


def test_a_map_that_is_not_ours_is_not_written_down_as_ours():
    """Another map is the user's word, by its name; a kind is a promise of this library."""
    assert "kind" not in to_dict(replace(RUN, prox=ball(1.0)))["prox"]


@every(("field", "value"), [("release", "path"), ("clipping", "strange")])
def test_words_that_are_equal_to_all_others_are_refused(field, value):
    run = smuggled(field, Agreeable(value))
    with pytest.raises((InvalidInput, NotApplicable)):
        best_guarantee(run, DELTA)


@every(
    ("field", "value"),
    [("diameter", float("nan")), ("diameter", -1.0), ("noise_std", -1.0), ("cooldown_steps", -5)],
)
def test_numbers_that_no_constructor_takes_are_refused(field, value):
    run = smuggled(field, value)
    with pytest.raises((InvalidInput, NotApplicable)):
        best_guarantee(run, DELTA)


def test_a_strange_loss_does_not_mix():
    class Still(pabi.Loss):
        def modulus(self, *args, **kwargs):
            return pabi.Modulus.affine(0.0, 0.0)

    with pytest.raises(InvalidInput, match="Still"):
        pabi.mixing_time(
            Still("convex", (("smoothness", 1.0),)),
            diameter=1.0,
            step_size=0.1,
            total_variation=0.01,
        )


@every("door", ["run", "iteration", "moments", "file"])
def test_no_training_has_the_adjacency_of_forgetting(door):
    """A training compares data sets; only what describes forgetting compares with a retrained model."""
    doors = {
        "run": lambda: replace(RUN, adjacency="retrained"),
        "iteration": lambda: pabi.NoisyIteration(1.0, 1.0, 1.0, steps=1, adjacency="retrained"),
        "moments": lambda: pabi.NoisySecondMoments(9, 2, 1.0, noise_std=1.0, adjacency="retrained"),
        "file": lambda: from_dict(to_dict(RUN) | {"adjacency": "retrained"}),
    }
    with pytest.raises(InvalidInput, match="adjacency"):
        doors[door]()


def test_a_proof_of_a_training_proves_nothing_of_forgetting():
    data = copy.deepcopy(FILE)
    data["adjacency"] = data["certificate"]["adjacency"] = "retrained"
    assert not pabi.verify(data).ok
    assert not pabi.verify(replace(GUARANTEE, adjacency="retrained")).ok


def test_forgetting_of_a_strange_run_is_refused():
    with pytest.raises(InvalidInput, match="StrangeRun"):
        pabi.Unlearning(SMUGGLED["theorem"], [(1, 1)])
    unlearning = pabi.Unlearning(RUN, [(1, 1)])
    object.__setattr__(unlearning.run, "adjacency", Agreeable("strange"))
    try:
        with pytest.raises(InvalidInput, match="adjacency"):
            unlearning.guarantee(DELTA)
    finally:
        object.__setattr__(unlearning.run, "adjacency", "replace_one")

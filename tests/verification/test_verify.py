"""The independent checker: it accepts what the library proves and refuses what nobody has proven.

Acceptance: certificates of every kind of run, also of random ones. Refusal: certificates that were
changed, by hand in the dishonest direction and at random; a changed certificate may pass only if what it
claims is no less than what fresh accounting of the (changed) description proves.
"""

from __future__ import annotations

import copy
import functools
import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

import pabi
from pabi import (
    Cyclic,
    FullBatch,
    InvalidInput,
    Loss,
    NoisyIteration,
    NoisySGD,
    NotApplicable,
    Reshuffle,
    ShuffleOnce,
)
from pabi.describe.files import from_dict
from pabi.describe.orders import KnownUses
from pabi.guarantees.certificate import Certificate
from pabi.numbers import encoding
from pabi.tradeoff import Gaussian

DELTA = 1e-3
pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


class Box:
    """A proximal map whose range has a diameter."""

    diameter = 1.5

    def __call__(self, x, step_size):
        return np.clip(x, -0.75, 0.75)

    def __repr__(self):
        return "Box(1.5)"


def sgd(**changes):
    fields = {
        "loss": Loss.convex(smoothness=1.0, l2=0.05),
        "n": 40,
        "batches": Cyclic(size=8),
        "epochs": 6,
        "step_size": 0.3,
        "noise_std": 1.0,
        "gradient_sensitivity": 8.0,
    }
    return NoisySGD(**{**fields, **changes})


def scheduled(steps, **changes):
    return sgd(**{"epochs": None, "steps": steps, **changes})


def bare(**changes):
    fields = {"contraction": 0.9, "step_sensitivity": 1.0, "step_noise_std": 2.0, "steps": 30}
    return NoisyIteration(**{**fields, **changes})


RISING, FALLING = np.linspace(0.1, 0.6, 30), np.linspace(0.6, 0.1, 30)
WAVES = 0.3 + 0.2 * np.sin(np.arange(30.0))
CLIPPED = {"gradient_sensitivity": None, "clip_norm": 2.0}
POISSON = Loss.poisson(feature_norm=1.0, predictor_bound=0.5, count_bound=3.0, l2=0.1)
PER_FEATURE = {"gradient_sensitivity": None}

RUNS = {
    "cyclic": sgd(),
    "full batch": sgd(batches=FullBatch(), gradient_sensitivity=40.0),
    "shuffle once": sgd(batches=ShuffleOnce(8)),
    "reshuffle": sgd(batches=Reshuffle(8)),
    "short last batch": sgd(batches=Cyclic(7)),
    "short last batch, shuffle once": sgd(batches=ShuffleOnce(7)),
    "short last batch, reshuffle": sgd(batches=Reshuffle(7)),
    "one batch": sgd(batches=ShuffleOnce(40), gradient_sensitivity=40.0),
    "cool-down": sgd(cooldown_steps=9),
    "cool-down, shuffle once": sgd(cooldown_steps=9, batches=ShuffleOnce(7)),
    "cool-down, reshuffle": sgd(cooldown_steps=9, batches=Reshuffle(7)),
    "partial epochs": sgd(epochs=3.4, batches=Cyclic(7)),
    "partial epochs, shuffle once": sgd(epochs=3.4, batches=ShuffleOnce(7)),
    "partial epochs, reshuffle": sgd(epochs=3.4, batches=Reshuffle(7)),
    "less than an epoch, shuffle once": sgd(epochs=0.5, batches=ShuffleOnce(7)),
    "less than an epoch, reshuffle": sgd(epochs=0.5, batches=Reshuffle(7)),
    "diameter": sgd(diameter=0.4, epochs=60),
    "diameter, shuffle once": sgd(diameter=0.4, epochs=60, batches=ShuffleOnce(7)),
    "diameter, reshuffle": sgd(diameter=0.4, epochs=60, batches=Reshuffle(7)),
    "diameter of a map": sgd(prox=Box(), epochs=300, loss=Loss.convex(1.0)),
    "expansive": sgd(loss=Loss.nonconvex(0.5)),
    "expansive, cool-down": sgd(loss=Loss.nonconvex(0.5), cooldown_steps=6),
    "expansive, shuffle once": sgd(loss=Loss.nonconvex(0.5), batches=ShuffleOnce(7)),
    "expansive, reshuffle": sgd(loss=Loss.nonconvex(0.5), batches=Reshuffle(7)),
    "expansive, diameter": sgd(loss=Loss.nonconvex(0.5), diameter=0.3, epochs=40),
    "weakly convex": sgd(loss=Loss.weakly_convex(0.1, 1.0)),
    "strongly convex": sgd(loss=Loss.strongly_convex(0.2, 1.0)),
    "falling": scheduled(30, step_size=FALLING),
    "falling, shuffle once": scheduled(30, step_size=FALLING, batches=ShuffleOnce(7)),
    "falling, reshuffle": scheduled(30, step_size=FALLING, batches=Reshuffle(7)),
    "falling, diameter": scheduled(30, step_size=FALLING, diameter=0.2),
    "falling, expansive": scheduled(30, step_size=FALLING, loss=Loss.nonconvex(0.5)),
    "rising": scheduled(30, step_size=RISING),
    "rising, cool-down": scheduled(30, step_size=RISING, cooldown_steps=7),
    "rising, shuffle once": scheduled(30, step_size=RISING, batches=ShuffleOnce(7)),
    "rising, reshuffle": scheduled(30, step_size=RISING, batches=Reshuffle(7), cooldown_steps=2),
    "rising, reshuffle, diameter": scheduled(
        30, step_size=RISING, batches=Reshuffle(7), diameter=0.2
    ),
    "waves": scheduled(30, step_size=WAVES, noise_std=2.0 - WAVES),
    "noise array": scheduled(30, noise_std=RISING),
    "noise array, reshuffle": scheduled(30, noise_std=RISING, batches=Reshuffle(7)),
    "logistic": sgd(loss=Loss.logistic(1.0, l2=0.1), **PER_FEATURE),
    "logistic, clipped": sgd(loss=Loss.logistic(3.0, l2=0.1), **CLIPPED),
    "logistic, clip above the bound": sgd(loss=Loss.logistic(1.5, l2=0.1), **CLIPPED),
    "softmax": sgd(loss=Loss.softmax(1.0, l2=0.1), **PER_FEATURE),
    "softmax, clipped": sgd(loss=Loss.softmax(3.0, l2=0.1), **CLIPPED),
    "poisson": sgd(loss=POISSON, **PER_FEATURE),
    "poisson, clipped": sgd(loss=POISSON, **CLIPPED),
    "squared": sgd(loss=Loss.squared(1.2, 2.0), **PER_FEATURE),
    "huber": sgd(loss=Loss.huber(1.2, 0.7), **PER_FEATURE),
    "smoothed hinge": sgd(loss=Loss.smoothed_hinge(1.1, 0.3), **PER_FEATURE),
    "glm, clipped": sgd(loss=Loss.nonconvex(1.0, glm=True), **CLIPPED),
    "zero out": sgd(loss=Loss.logistic(3.0, l2=0.1), adjacency="zero_out", **CLIPPED),
    "multiplier": sgd(
        loss=Loss.logistic(3.0, l2=0.1), noise_std=None, noise_multiplier=1.3, **CLIPPED
    ),
    "multiplier without a clip": sgd(
        loss=Loss.softmax(0.7), noise_std=None, noise_multiplier=1.3, **PER_FEATURE
    ),
    "multiplier array": scheduled(
        30,
        loss=Loss.logistic(3.0, l2=0.1),
        noise_std=None,
        noise_multiplier=1.0 + RISING,
        batches=ShuffleOnce(7),
        **CLIPPED,
    ),
    "slope zero": scheduled(30, loss=Loss.strongly_convex(0.5, 0.5), step_size=WAVES.round() + 2.0),
    "path": sgd(release="path"),
    "path, shuffle once": sgd(release="path", batches=ShuffleOnce(7), epochs=2.5),
    "path, reshuffle": sgd(release="path", batches=Reshuffle(7), epochs=2.5),
    "path, noise array": scheduled(32, release="path", noise_std=np.linspace(1, 2, 32)),
    "path, noise array, shuffle once": scheduled(
        32, release="path", noise_std=np.linspace(1, 2, 32), batches=ShuffleOnce(7)
    ),
    "path, noise array, reshuffle": scheduled(
        32, release="path", noise_std=np.linspace(1, 2, 32), batches=Reshuffle(7)
    ),
    "other update": sgd(update="other"),
    "unknown loss": sgd(loss=Loss.unknown()),
    "bare": bare(),
    "bare, written": bare(contraction=np.full(30, 0.9)),
    "bare, diameter": bare(contraction=1.0, diameter=3.0),
    "bare, diameter, written": bare(contraction=1.0 + 0.1 * np.sin(np.arange(30.0)), diameter=3.0),
    "bare, start": bare(start=2.0),
    "bare, start only": bare(start=5.0, step_sensitivity=0.0),
    "bare, start, written": bare(start=2.0, step_sensitivity=np.linspace(0.0, 1.0, 30)),
    "bare, start and diameter": bare(contraction=1.0, start=5.0, diameter=4.0),
    "bare, expansive": bare(contraction=1.02),
    "bare, zero noise at times": bare(step_noise_std=np.arange(30.0) % 3),
    "bare, no noise": bare(step_noise_std=0.0),
    "bare, nothing to hide": bare(step_noise_std=0.0, step_sensitivity=0.0),
    "bare, slope zero": bare(contraction=0.0),
    "bare, slope zero at times": bare(contraction=(np.arange(30) % 7 > 0) * 0.9),
    "bare, composition": bare(contraction=50.0),
    "bare, path noise array": bare(contraction=50.0, step_noise_std=1.0 + RISING),
}


@functools.cache
def guarantee_of(name, position=None):
    keywords = {} if position is None else {"position": position}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RUNS[name].guarantee(delta=DELTA, **keywords)


def payload_of(name, position=None):
    """A fresh copy of the certificate's JSON object, by way of its text."""
    return json.loads(guarantee_of(name, position).certificate.to_json())


def gaussian_delta(epsilon, mu):
    if mu == 0.0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    a = log_ndtr(-epsilon / mu + mu / 2)
    b = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    return float(np.exp(a) * -np.expm1(min(0.0, b - a)))


def fresh_guarantee(payload):
    """What accounting makes of the description that a certificate embeds or states."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if payload["run"] is not None:
            return from_dict(payload["run"]).guarantee(delta=DELTA, position=payload["position"])
        if "steps" in payload:
            columns = [encoding.read_floats(k, payload["steps"][k]) for k in ("c", "s", "sigma")]
        else:
            rows = [
                row
                for times, stretches in payload["groups"]
                for _ in range(times)
                for n, *row in stretches
                for _ in range(n)
            ]
            if not rows:
                return pabi.Guarantee(
                    Gaussian(math.inf if payload["start"] else 0.0),
                    payload["adjacency"],
                    "",
                    "",
                    (),
                )
            columns = np.array(rows, dtype=float).T
        return NoisyIteration(
            *columns, diameter=payload["diameter"], start=payload["start"]
        ).guarantee(delta=DELTA)


def too_small(payload, verdict):
    """Why an accepted certificate claims less than is proven afresh, or None."""
    if not verdict.ok:
        return None
    try:
        g = fresh_guarantee(payload)
    except (InvalidInput, NotApplicable) as error:
        return f"accepted, although {error}"
    if g.adjacency != verdict.adjacency:
        return f"adjacency {g.adjacency}"
    if g.mu is not None and verdict.mu is not None:
        return None if verdict.mu >= g.mu * (1 - 1e-9) else f"{verdict.mu} < {g.mu}"
    epsilon = max(g.epsilon(DELTA), 0.0) * (1 - 1e-7)
    least = min(DELTA, g.delta(epsilon))
    claimed = sum(float(w) * gaussian_delta(epsilon, mu) for w, mu in verdict.parts)
    return None if claimed >= least * (1 - 1e-8) else f"delta {claimed} < {least} at {epsilon}"


def refused(payload, *words):
    verdict = pabi.verify(payload)
    assert not verdict.ok, verdict
    assert verdict.reason
    assert verdict.mu is None
    assert verdict.parts == ()
    for word in words:
        assert word in verdict.reason, verdict.reason


class TestAccepted:
    @pytest.mark.parametrize("name", list(RUNS))
    @pytest.mark.one_in(2)
    def test_every_kind_of_run(self, name):
        g = guarantee_of(name)
        verdict = pabi.verify(g.certificate.to_json())
        assert verdict.ok, verdict.reason
        assert verdict.scope == ("iteration" if name.startswith("bare") else "run")
        assert verdict.adjacency == g.adjacency
        assert verdict.assumptions == g.assumptions
        if g.mu is not None:
            assert verdict.mu == g.mu
        else:
            assert verdict.mu is None
            claimed = sorted((mu, float(w)) for w, mu in verdict.parts)
            assert claimed == sorted(
                (part.mu, w) for part, w in zip(g.curve.parts, g.curve.weights, strict=True)
            )
        assert too_small(payload_of(name), verdict) is None

    @pytest.mark.parametrize("name", list(RUNS))
    def test_through_a_guarantee(self, name):
        g = pabi.Guarantee.from_json(guarantee_of(name).to_json())
        assert not g.verified
        assert pabi.verify(g).ok
        assert g.verified

    def test_the_runs_are_what_their_names_say(self):
        assert payload_of("diameter")["cases"][0]["tau"] > 0
        assert payload_of("diameter of a map")["cases"][0]["tau"] > 0
        assert payload_of("bare, diameter")["cases"][0]["tau"] > 0
        assert payload_of("bare, diameter, written")["cases"][0]["tau"] > 0
        assert len(payload_of("falling")["cases"]) == 5
        assert guarantee_of("falling, reshuffle").method == "latest uses"
        assert guarantee_of("softmax, clipped").method == "shifted interpolation"
        assert guarantee_of("bare, composition").method == "composition"
        for name in ("reshuffle", "rising, reshuffle", "shuffle once", "falling, shuffle once"):
            assert guarantee_of(name).method == "secret order"
        for name in ("expansive", "falling", "logistic, clipped", "poisson", "glm, clipped"):
            assert guarantee_of(name).method == "shifted interpolation"

    @pytest.mark.parametrize("name", ["cyclic", "falling", "diameter", "path", "partial epochs"])
    @pytest.mark.parametrize("position", [0, 2, 4])
    def test_positions(self, name, position):
        g = guarantee_of(name, position)
        verdict = pabi.verify(g.certificate.to_json())
        assert verdict.ok, verdict.reason
        assert verdict.mu == g.mu
        assert any(f"batch {position}" in s for s in verdict.assumptions)

    def test_every_form_of_input(self):
        g = sgd().guarantee(delta=DELTA)
        forms = [g, g.certificate, g.certificate.payload, g.certificate.to_json(), g.to_json()]
        forms += [g.to_dict(certificate=True), Certificate.from_json(g.certificate.to_json())]
        for form in forms:
            assert pabi.verify(form).ok
        assert g.certificate.verdict.ok

    def test_verifying_changes_nothing(self):
        for name in ("cyclic", "reshuffle", "falling", "bare, written"):
            payload = payload_of(name)
            before = copy.deepcopy(payload)
            pabi.verify(payload)
            assert payload == before

    def test_a_larger_claim_is_proven_too(self):
        payload = payload_of("cyclic")
        payload["claim"]["mu"] *= 1.5
        verdict = pabi.verify(payload)
        assert verdict.ok
        assert verdict.mu == payload["claim"]["mu"]
        payload = payload_of("shuffle once")
        payload["claim"] = {"mu": "inf"}
        assert pabi.verify(payload).ok

    def test_shuffled_batches_are_no_worse_than_the_worst_position(self):
        """The claim {"mu": worst} follows from a mixture."""
        payload = payload_of("shuffle once")
        worst = max(mu for _, mu in payload["claim"]["mixture"])
        payload["claim"] = {"mu": worst}
        assert pabi.verify(payload).mu == worst


positive = st.floats(0.05, 5.0)


@st.composite
def losses(draw):
    l2 = draw(st.sampled_from([0.0, 0.01, 0.3]))
    norm = draw(st.floats(0.2, 3.0))
    kind = draw(st.integers(0, 8))
    if kind == 0:
        return Loss.logistic(norm, l2)
    if kind == 1:
        return Loss.softmax(norm, l2)
    if kind == 2:
        return Loss.squared(norm, draw(positive), l2)
    if kind == 3:
        return Loss.huber(norm, draw(positive), l2)
    if kind == 4:
        return Loss.poisson(norm, draw(st.floats(-1.0, 1.0)), draw(positive), l2)
    if kind == 5:
        return Loss.nonconvex(draw(st.floats(0.01, 2.0)), l2, glm=draw(st.booleans()))
    if kind == 6:
        return Loss.strongly_convex(norm / 10, norm, l2)
    if kind == 7:
        return Loss.unknown(l2)
    return Loss.convex(norm, l2)


@st.composite
def runs(draw):
    loss = draw(losses())
    n = draw(st.integers(1, 30))
    batches = draw(st.sampled_from([Cyclic, ShuffleOnce, Reshuffle, FullBatch]))
    size = draw(st.integers(1, n))
    steps = draw(st.integers(1, 40))

    def schedule(low, high):
        kind = draw(st.sampled_from(["constant", "constant", "any", "rising", "falling"]))
        if kind == "constant":
            return draw(st.floats(low, high))
        values = draw(st.lists(st.floats(low, high), min_size=steps, max_size=steps))
        return values if kind == "any" else sorted(values, reverse=kind == "falling")

    fields = {"noise_std": schedule(1e-3, 10.0)}
    if loss.gradient_bound is not None:
        fields["clip_norm"] = draw(st.none() | positive)
        if draw(st.booleans()):
            fields = {"noise_multiplier": fields.pop("noise_std"), **fields}
    elif draw(st.booleans()):
        fields["clip_norm"] = draw(positive)
    else:
        fields["gradient_sensitivity"] = draw(positive)
    return NoisySGD(
        loss,
        n=n,
        batches=FullBatch() if batches is FullBatch else batches(size),
        steps=steps,
        step_size=schedule(1e-3, 3.0),
        adjacency=draw(st.sampled_from(["replace_one", "zero_out"])),
        diameter=draw(st.none() | st.floats(1e-3, 10.0)),
        cooldown_steps=draw(st.integers(0, min(5, steps - 1))),
        update=draw(st.sampled_from(["sgd"] * 9 + ["other"])),
        release=draw(st.sampled_from(["last"] * 9 + ["path"])),
        **fields,
    )


@st.composite
def iterations(draw):
    steps = draw(st.integers(1, 25))

    def column(*values):
        one = st.sampled_from(values) | st.floats(1e-3, 2.0)
        return draw(one | st.lists(one, min_size=steps, max_size=steps))

    return NoisyIteration(
        contraction=column(0.0, 1.0, 0.5),
        step_sensitivity=column(0.0, 1.0),
        step_noise_std=column(0.0, 1.0),
        diameter=draw(st.none() | st.floats(0.01, 10.0)),
        start=draw(st.sampled_from([0.0, 0.0, 1.0, 3.5])),
        steps=steps,
    )


RELAXED = settings(
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class TestRandom:
    """What the library proves, the checker accepts."""

    @RELAXED
    @given(runs())
    def test_runs(self, run):
        g = run.guarantee(delta=DELTA)
        verdict = pabi.verify(g.to_json())
        assert verdict.ok, verdict.reason
        assert verdict.scope == "run"

    @RELAXED
    @given(runs(), st.integers(0, 29))
    def test_positions(self, run, position):
        if not isinstance(run.order, KnownUses):
            return
        position %= run.steps_per_epoch
        g = run.guarantee(delta=DELTA, position=position)
        verdict = pabi.verify(g.to_json())
        assert verdict.ok, verdict.reason
        assert verdict.mu == g.mu <= run.guarantee(delta=DELTA).mu * (1 + 1e-12)

    @RELAXED
    @given(iterations())
    def test_iterations(self, it):
        try:
            with np.errstate(divide="ignore"):
                g = it.guarantee(delta=DELTA)
        except NotApplicable:
            assert it.start > 0.0
            return
        verdict = pabi.verify(g.to_json())
        assert verdict.ok, verdict.reason
        assert verdict.scope == "iteration"

    @settings(RELAXED, max_examples=settings().max_examples // 4)
    @given(runs(), runs())
    def test_composed(self, first, second):
        a, b = first.guarantee(delta=DELTA), second.guarantee(delta=DELTA)
        if a.adjacency != b.adjacency:
            with pytest.raises(InvalidInput):
                pabi.compose(a, b)
            return
        verdict = pabi.verify(pabi.compose(a, b))
        assert verdict.ok, verdict.reason


LITTLE_LESS, LITTLE_MORE = 1 - 1e-6, 1 + 1e-6
POSITIVE = [
    name
    for name in RUNS
    if name not in ("bare, no noise", "bare, nothing to hide", "slope zero", "bare, slope zero")
    and "slope zero" not in name
]


def all_stretches(case):
    return [
        stretch for block in case["blocks"] for _, inner in block["groups"] for stretch in inner
    ]


def changed_column(column, k, factor):
    values = encoding.read_floats("column", column).copy()
    values[k] *= factor
    return encoding.floats(values)


class TestSmallLies:
    """A claim changed by one part in a million, in the dishonest direction."""

    @pytest.mark.parametrize("name", POSITIVE)
    def test_claim(self, name):
        payload = payload_of(name)
        if "mu" in payload["claim"]:
            payload["claim"]["mu"] *= LITTLE_LESS
        else:
            payload["claim"]["mixture"][-1][1] *= LITTLE_LESS
        refused(payload, "mu")

    @pytest.mark.parametrize("name", POSITIVE)
    @pytest.mark.one_in(3)
    def test_every_part_of_a_mixture(self, name):
        if "mixture" not in payload_of(name).get("claim", {}):
            return
        for j in range(len(payload_of(name)["claim"]["mixture"])):
            payload = payload_of(name)
            if payload["claim"]["mixture"][j][1] > 0.0:
                payload["claim"]["mixture"][j][1] *= LITTLE_LESS
                refused(payload)
            payload = payload_of(name)
            payload["claim"]["mixture"][j][0] *= LITTLE_LESS
            refused(payload)
            payload = payload_of(name)
            if j:
                payload["claim"]["mixture"][j][0] -= 1e-6
                payload["claim"]["mixture"][0][0] += 1e-6
                refused(payload)

    @pytest.mark.parametrize("name", POSITIVE)
    def test_mu_of_a_case(self, name):
        for i, case in enumerate(payload_of(name)["cases"]):
            if "mu" not in case or case["mu"] == 0.0:
                continue
            payload = payload_of(name)
            payload["cases"][i]["mu"] *= LITTLE_LESS
            refused(payload, "mu", "step")

    @pytest.mark.parametrize("name", POSITIVE)
    def test_payments(self, name):
        for i, case in enumerate(payload_of(name)["cases"]):
            if "q" not in case:
                continue
            for k in range(len(encoding.read_floats("q", case["q"]))):
                payload = payload_of(name)
                payload["cases"][i]["q"] = changed_column(case["q"], k, LITTLE_LESS)
                refused(payload, "step")

    @pytest.mark.parametrize("name", POSITIVE)
    @pytest.mark.parametrize(
        ("entry", "factor"), [(1, LITTLE_LESS), (2, LITTLE_LESS), (3, LITTLE_MORE)]
    )
    @pytest.mark.one_in(3)
    def test_blocks_of_a_run(self, name, entry, factor):
        """Slope and sensitivity too small, noise too large."""
        if name.startswith("bare"):
            return
        for i, case in enumerate(payload_of(name)["cases"][:3]):
            for j, stretch in enumerate(all_stretches(case) if "blocks" in case else []):
                if stretch[entry] == 0.0:
                    continue
                payload = payload_of(name)
                all_stretches(payload["cases"][i])[j][entry] *= factor
                refused(payload, "step")

    @pytest.mark.parametrize("name", POSITIVE)
    @pytest.mark.parametrize(
        ("column", "factor"), [("c", LITTLE_LESS), ("s", LITTLE_LESS), ("sigma", LITTLE_MORE)]
    )
    @pytest.mark.one_in(3)
    def test_written_steps_of_a_run(self, name, column, factor):
        payload = payload_of(name)
        if name.startswith("bare") or payload.get("steps") is None:
            return
        data = RUNS[name].data_steps
        for k in (0, data // 2, data - 1):
            payload = payload_of(name)
            if encoding.read_floats("x", payload["steps"][column])[k] == 0.0:
                continue
            payload["steps"][column] = changed_column(payload["steps"][column], k, factor)
            refused(payload, f"step {k + 1}:")

    @pytest.mark.parametrize("name", [n for n in POSITIVE if n.startswith("bare")])
    @pytest.mark.parametrize(("entry", "factor"), [(2, LITTLE_MORE), (3, LITTLE_LESS)])
    def test_stated_steps(self, name, entry, factor):
        """A bare iteration that is worse than the one whose payments are shown."""
        payload = payload_of(name)
        if "groups" in payload:
            worse = payload_of(name)
            for _, stretches in worse["groups"]:
                for stretch in stretches:
                    stretch[entry] *= factor
            if worse == payload:
                return
            refused(worse)
            for case in worse["cases"]:
                for stretch in all_stretches(case):
                    stretch[entry] *= factor
            refused(worse)
            return
        column = ("n", "c", "s", "sigma")[entry]
        steps = len(encoding.read_floats("s", payload["steps"]["s"]))
        values = encoding.read_floats(column, payload["steps"][column])
        tau = payload["cases"][0]["tau"] if payload["cases"] else 0
        for k in {tau, (tau + steps) // 2, steps - 1}:
            if values[k] == 0.0:
                continue
            worse = payload_of(name)
            worse["steps"][column] = changed_column(payload["steps"][column], k, factor)
            verdict = pabi.verify(worse)
            # A step whose noise pays for nothing may lose some of it.
            assert too_small(worse, verdict) is None
            assert not verdict.ok or entry == 3
        worse = payload_of(name)
        worse["steps"][column] = encoding.floats(values * factor)
        refused(worse)

    @pytest.mark.parametrize(
        "name", [n for n in POSITIVE if "diameter" in n or n.startswith("bare, start")]
    )
    def test_distance(self, name):
        for i, case in enumerate(payload_of(name)["cases"]):
            if case.get("distance", 0.0) == 0.0:
                continue
            payload = payload_of(name)
            payload["cases"][i]["distance"] *= LITTLE_LESS
            refused(payload, "distance", "step")
            for tau in {0, case["tau"] - 1, case["tau"] + 1} - {case["tau"]}:
                payload = payload_of(name)
                payload["cases"][i]["tau"] = tau
                assert too_small(payload, pabi.verify(payload)) is None


class TestDescriptions:
    """A description of a run that is less private than the one the certificate was made for."""

    @pytest.mark.parametrize("name", [n for n in POSITIVE if not n.startswith("bare")])
    def test_numbers(self, name):
        run = payload_of(name)["run"]
        lies = {
            "gradient_sensitivity": LITTLE_MORE,
            "noise_std": LITTLE_LESS,
            "noise_multiplier": LITTLE_LESS,
        }
        for field, factor in lies.items():
            if field not in run:
                continue
            payload = payload_of(name)
            if isinstance(run[field], float):
                payload["run"][field] *= factor
            else:
                values = encoding.read_floats(field, run[field])
                payload["run"][field] = encoding.floats(values * factor)
            refused(payload)

    @pytest.mark.parametrize(
        ("name", "path", "value"),
        [
            ("cyclic", ["epochs"], 7),
            ("cyclic", ["epochs"], 6.2),
            ("cyclic", ["loss", "l2"], 0.04),
            ("cyclic", ["loss", "l2"], 0.0),
            ("cyclic", ["loss", "smoothness"], 8.0),
            ("cyclic", ["loss"], {"kind": "unknown"}),
            ("cyclic", ["loss"], {"kind": "nonconvex", "smoothness": 1.0}),
            ("cyclic", ["batches", "size"], 4),
            ("cyclic", ["batches", "size"], 10),
            ("cyclic", ["batches", "size"], 7),
            ("cyclic", ["batches", "kind"], "reshuffle"),
            ("cyclic", ["batches"], {"kind": "full_batch"}),
            ("cyclic", ["n"], 8),
            ("cyclic", ["n"], 39),
            ("cyclic", ["n"], 41),
            ("cyclic", ["n"], 80),
            ("cyclic", ["step_size"], 0.2),
            ("cyclic", ["step_size"], 7.0),
            ("cyclic", ["release"], "path"),
            ("cyclic", ["update"], "other"),
            ("cyclic", ["adjacency"], "zero_out"),
            ("cyclic", ["cooldown_steps"], 3),
            ("cool-down", ["cooldown_steps"], 8),
            ("cool-down", ["cooldown_steps"], 0),
            ("diameter", ["diameter"], 0.5),
            ("diameter", ["diameter"], None),
            ("diameter of a map", ["prox", "diameter"], 2.0),
            ("diameter of a map", ["prox", "diameter"], None),
            ("diameter of a map", ["prox"], None),
            ("expansive", ["loss", "smoothness"], 0.6),
            ("strongly convex", ["loss", "strong_convexity"], 0.1),
            ("weakly convex", ["loss", "weak_convexity"], 0.2),
            ("logistic, clipped", ["clip_norm"], 2.1),
            ("logistic, clipped", ["clip_norm"], None),
            ("logistic, clipped", ["loss", "kind"], "softmax"),
            ("logistic", ["loss", "feature_norm"], 1.1),
            ("softmax", ["loss", "feature_norm"], 1.1),
            ("poisson", ["loss", "count_bound"], 4.0),
            ("glm, clipped", ["loss", "glm"], False),
            ("multiplier", ["batches", "size"], 9),
            ("zero out", ["adjacency"], "replace_one"),
            ("shuffle once", ["batches", "kind"], "cyclic"),
            ("shuffle once", ["batches", "kind"], "reshuffle"),
            ("shuffle once", ["n"], 39),
            ("reshuffle", ["batches", "kind"], "shuffle_once"),
            ("reshuffle", ["batches", "kind"], "cyclic"),
            ("reshuffle", ["loss"], {"kind": "nonconvex", "smoothness": 1.0}),
            ("partial epochs, reshuffle", ["epochs"], 3.6),
            ("partial epochs, shuffle once", ["epochs"], 3.6),
            ("path", ["epochs"], 7),
            ("path, shuffle once", ["epochs"], 2.7),
            ("path, shuffle once", ["batches", "kind"], "cyclic"),
            ("path, reshuffle", ["epochs"], 3.1),
            ("falling", ["step_size"], list(FALLING[::-1])),
            ("falling, reshuffle", ["batches", "kind"], "cyclic"),
            ("rising, reshuffle", ["step_size"], list(FALLING)),
            ("rising, shuffle once", ["step_size"], list(FALLING)),
        ],
    )
    def test_fields(self, name, path, value):
        payload = payload_of(name)
        table = payload["run"]
        for key in path[:-1]:
            table = table[key]
        if value is None:
            del table[path[-1]]
        else:
            table[path[-1]] = value
        verdict = pabi.verify(payload)
        assert too_small(payload, verdict) is None, verdict

    def test_zero_out_with_its_own_adjacency(self):
        """A clipped run under the weaker adjacency needs half: honest only if it says so."""
        payload = payload_of("logistic, clipped")
        payload["run"]["adjacency"] = "zero_out"
        refused(payload, "adjacency")
        payload["adjacency"] = "zero_out"
        verdict = pabi.verify(payload)
        assert verdict.ok
        assert verdict.adjacency == "zero_out"
        assert any("zero_out" in s for s in verdict.assumptions)
        payload["adjacency"] = "replace_one"
        refused(payload, "adjacency")


class TestCases:
    @pytest.mark.parametrize(
        "name", ["falling", "falling, shuffle once", "reshuffle", "shuffle once"]
    )
    def test_swapped(self, name):
        count = len(payload_of(name)["cases"])
        for i, j in [(0, 1), (0, count - 1), (1, count - 1)]:
            payload = payload_of(name)
            cases = payload["cases"]
            cases[i], cases[j] = cases[j], cases[i]
            verdict = pabi.verify(payload)
            assert too_small(payload, verdict) is None
            assert not verdict.ok or name == "reshuffle"  # whose pairs may come in any order
            # The proofs alone, with the headings left in place.
            payload = payload_of(name)
            for key in ("uses", "ranges", "weight"):
                if key in cases[0]:
                    here = payload["cases"]
                    here[i][key], here[j][key] = here[j][key], here[i][key]
            refused(payload)

    @pytest.mark.parametrize(
        "name", ["cyclic", "falling", "falling, shuffle once", "reshuffle", "shuffle once", "bare"]
    )
    def test_deleted_or_doubled(self, name):
        count = len(payload_of(name)["cases"])
        for i in range(count):
            payload = payload_of(name)
            del payload["cases"][i]
            refused(payload)
            payload = payload_of(name)
            payload["cases"].append(copy.deepcopy(payload["cases"][i]))
            assert too_small(payload, pabi.verify(payload)) is None
            payload = payload_of(name)
            payload["cases"][i] = copy.deepcopy(payload["cases"][(i + 1) % count])
            if count > 1:
                refused(payload)
        payload = payload_of(name)
        payload["cases"] = []
        refused(payload)

    @pytest.mark.parametrize("name", ["cyclic", "falling", "partial epochs"])
    def test_another_position(self, name):
        for stated in (0, 1, None):
            for other in (None, 0, 1, 3, 4, 5, -1, True, 1.5):
                if other is stated:
                    continue
                payload = payload_of(name, stated)
                payload["position"] = other
                verdict = pabi.verify(payload)
                assert not verdict.ok or stated is None, (stated, other)
                if other is not True:
                    assert too_small(payload, verdict) is None, (stated, other)

    @pytest.mark.parametrize(
        "name", ["cyclic", "partial epochs", "diameter", "rising", "cool-down"]
    )
    def test_a_safer_record_for_the_worst(self, name):
        for position in range(RUNS[name].steps_per_epoch):
            safer = payload_of(name, position)
            if position == (RUNS[name].data_steps - 1) % RUNS[name].steps_per_epoch:
                continue
            payload = payload_of(name)
            payload["cases"], payload["claim"] = safer["cases"], safer["claim"]
            refused(payload, "uses")
            payload["cases"][0]["uses"] = payload_of(name)["cases"][0]["uses"]
            refused(payload)

    @pytest.mark.parametrize("name", ["falling", "expansive, cool-down"])
    def test_a_safer_record_among_all(self, name):
        """Where every position has to be shown, showing one of them several times is not enough."""
        payload = payload_of(name)
        safest = min(payload["cases"], key=lambda c: c["mu"])
        payload["cases"] = [copy.deepcopy(safest) for _ in payload["cases"]]
        payload["claim"]["mu"] = safest["mu"]
        refused(payload)
        payload["cases"] = [copy.deepcopy(safest)]
        refused(payload)

    @pytest.mark.parametrize("name", ["shuffle once", "falling, shuffle once", "reshuffle"])
    def test_ranges_and_weights(self, name):
        for i in range(len(payload_of(name)["cases"])):
            ranges = payload_of(name)["cases"][i]["ranges"]
            for r in range(len(ranges)):
                for end, by in [(0, 1), (0, -1), (1, 1), (1, -1)]:
                    payload = payload_of(name)
                    payload["cases"][i]["ranges"][r][end] += by
                    refused(payload)
                payload = payload_of(name)
                payload["cases"][i]["ranges"][r] = None
                refused(payload)
            payload = payload_of(name)
            payload["cases"][i]["weight"] = [1, 1000]  # weights are derived, so this says nothing
            assert too_small(payload, pabi.verify(payload)) is None

    def test_uses(self):
        for name in ("cyclic", "falling", "reshuffle", "shuffle once", "partial epochs, reshuffle"):
            first, count, then = payload_of(name)["cases"][0]["uses"]
            lies = [[first, count - 1, then], [first - 1, count, then], [first, count, [*then, 3]]]
            lies += [[first, 0, then], [first, count, then[:-1]]] if then else [[first, 0, []]]
            for uses in lies:
                payload = payload_of(name)
                payload["cases"][0]["uses"] = uses
                refused(payload, "uses")

    def test_pooled_positions_where_they_may_not_be(self):
        """Positions may be rounded to later ones only where a later use is never safer."""
        payload = payload_of("falling, shuffle once")
        cases = payload["cases"]
        cases[0]["ranges"] = [[0, 1]]
        del cases[1]
        refused(payload)
        last = payload["cases"][-1]
        last["ranges"] = [[0, len(cases)]]
        payload["cases"] = [last]
        payload["claim"] = {"mu": last["mu"]}
        refused(payload, "rounded")

    def test_pooling_where_it_may(self):
        payload = payload_of("shuffle once")
        last = payload["cases"][-1]
        last["ranges"], last["weight"] = [[0, len(payload["cases"]) - 1]], [1, 1]
        payload["cases"], payload["claim"] = [last], {"mu": last["mu"]}
        verdict = pabi.verify(payload)
        assert verdict.ok, verdict.reason
        assert too_small(payload, verdict) is None


class TestTheorems:
    @pytest.mark.parametrize("name", list(RUNS))
    @pytest.mark.parametrize(
        "theorem",
        ["composition", "shifted interpolation", "secret order", "composed", "magic", None, [], 1],
    )
    @pytest.mark.one_in(4)
    def test_another_theorem(self, name, theorem):
        payload = payload_of(name)
        if payload["theorem"] == theorem:
            return
        payload["theorem"] = theorem
        assert too_small(payload, pabi.verify(payload)) is None

    def test_unknown(self):
        payload = payload_of("cyclic")
        payload["theorem"] = "magic"
        refused(payload, "magic")

    @pytest.mark.parametrize("name", ["path", "other update", "path, shuffle once"])
    @pytest.mark.parametrize("theorem", ["shifted interpolation", "secret order"])
    def test_a_path_has_nothing_hidden(self, name, theorem):
        payload = payload_of("cyclic" if "shuffle" not in name else "shuffle once")
        payload["theorem"] = theorem
        for key in ("release", "update"):
            payload["run"].pop(key, None)
            if key in payload_of(name)["run"]:
                payload["run"][key] = payload_of(name)["run"][key]
        refused(payload)


class TestShortcuts:
    """Proofs that leave something unpaid."""

    def test_steps_left_out_of_a_bare_iteration(self):
        """Starting late is free only where nothing happened, or at the cost of the diameter."""
        payload = payload_of("bare")
        payload["cases"][0] = {
            "tau": 0,
            "distance": 0.0,
            "skipped": 29,
            "blocks": [{"times": 1, "groups": [[1, [[1, 0.9, 1.0, 2.0]]]]}],
        }
        payload["claim"]["mu"] = 0.5000001
        refused(payload)

    def test_steps_left_out_with_a_start(self):
        payload = payload_of("bare, start")
        payload["cases"][0] = {
            "tau": 0,
            "distance": 2.0,
            "skipped": 29,
            "blocks": [{"times": 1, "groups": [[1, [[1, 0.9, 1.0, 2.0]]]]}],
        }
        payload["claim"]["mu"] = 1.41
        refused(payload)

    def test_a_start_that_nobody_pays(self):
        payload = payload_of("bare, start only")
        payload["cases"][0]["blocks"] = []
        payload["claim"]["mu"] = 0.0
        refused(payload)

    def test_a_diameter_that_nobody_pays(self):
        payload = payload_of("bare, diameter")
        payload["cases"][0].update(tau=30, skipped=30, distance=3.0, blocks=[])
        payload["claim"]["mu"] = 0.0
        refused(payload)

    @pytest.mark.parametrize("name", ["diameter", "diameter of a map", "diameter, shuffle once"])
    def test_a_start_at_the_very_end_of_a_run(self, name):
        payload = payload_of(name)
        t, d = int(RUNS[name].steps), RUNS[name].range_diameter
        for case in payload["cases"]:
            for key in ("first", "ends", "q"):
                case.pop(key, None)
            case.update(tau=t, skipped=t, distance=d, blocks=[], mu=0.0)
        payload["claim"] = {"mu": 0.0}
        refused(payload)

    @pytest.mark.parametrize("name", ["falling, diameter", "bare, diameter, written"])
    def test_a_written_start_at_the_very_end(self, name):
        for tau in (30, 31, 10**9):
            payload = payload_of(name)
            for case in payload["cases"]:
                case.update(tau=tau, distance=10.0, first=tau, ends=[], q=[], mu=0.0)
            payload["claim"]["mu"] = 0.0
            refused(payload)

    @pytest.mark.parametrize("name", POSITIVE)
    def test_no_payments(self, name):
        payload = payload_of(name)
        for case in payload["cases"]:
            if "blocks" in case:
                case["blocks"] = []
            elif "q" in case:
                case.update(ends=[], q=[])
        verdict = pabi.verify(payload)
        assert too_small(payload, verdict) is None, verdict
        payload["claim"] = {"mu": 0.0}
        refused(payload)

    @pytest.mark.parametrize("name", ["cyclic", "partial epochs", "cool-down", "diameter"])
    def test_more_steps_skipped(self, name):
        case = payload_of(name)["cases"][0]
        for more in (1, 5, 10**6):
            for tau in (0, case["tau"], case["skipped"] + more):
                payload = payload_of(name)
                payload["cases"][0].update(skipped=case["skipped"] + more, tau=tau)
                refused(payload)

    @pytest.mark.parametrize("name", ["cyclic", "reshuffle", "shuffle once", "diameter", "bare"])
    def test_blocks_left_out(self, name):
        for i, case in enumerate(payload_of(name)["cases"]):
            for j in range(len(case.get("blocks", []))):
                payload = payload_of(name)
                del payload["cases"][i]["blocks"][j]
                refused(payload)
                payload = payload_of(name)
                payload["cases"][i]["blocks"][j]["times"] += 1
                refused(payload)

    @pytest.mark.parametrize("name", ["bare, written", "bare, start, written"])
    @pytest.mark.parametrize("column", ["c", "s", "sigma"])
    def test_columns_of_different_lengths(self, name, column):
        for length in (0, 1, 29, 31):
            payload = payload_of(name)
            values = encoding.read_floats(column, payload["steps"][column])
            payload["steps"][column] = encoding.floats(np.resize(values, length))
            refused(payload)

    def test_slopes_for_one_step_only(self):
        """Thirty demands, but a slope for one step: the rest would go unpaid."""
        payload = payload_of("bare, written")
        payload["steps"]["c"] = [0.9]
        payload["cases"][0].update(tau=0, distance=0.0, first=0, ends=[0], q=[0.2500001])
        payload["claim"]["mu"] = 0.500001
        refused(payload)

    def test_precision_set_elsewhere(self):
        """Balls stay balls when another part of the program lowers flint's working precision."""
        import flint

        for name in ("path, shuffle once", "path", "cyclic", "falling", "reshuffle"):
            payload = payload_of(name)
            if "mu" in payload["claim"]:
                payload["claim"]["mu"] *= 1 - 1e-9
            else:
                payload["claim"]["mixture"][-1][1] *= 1 - 1e-9
            for bits in (8, 24, 53):
                with flint.ctx.workprec(bits):
                    refused(payload)

    def test_one_block_for_all(self):
        """Paying at one slope all along, although the demands come late."""
        groups = [[1, [[20, 1.0, 0.0, 1.0]]], [1, [[1, 1.0, 1.0, 1.0]]]]
        payload = {
            **payload_of("bare"),
            "groups": groups,
            "claim": {"mu": 0.3},
            "cases": [
                {
                    "tau": 0,
                    "distance": 0.0,
                    "skipped": 0,
                    "blocks": [{"times": 1, "groups": groups}],
                }
            ],
        }
        refused(payload, "before they arise")

    def test_pooled_repetitions_that_expand(self):
        """Slopes above one: the payments within repetitions come before the demands."""
        stated = [[50, [[1, 1.2, 1.0, 1.0], [3, 1.0, 0.0, 1.0]]]]
        payload = {
            **payload_of("bare"),
            "groups": stated,
            "claim": {"mu": 0.5},
            "cases": [
                {
                    "tau": 0,
                    "distance": 0.0,
                    "skipped": 0,
                    "blocks": [{"times": 1, "groups": stated}],
                }
            ],
        }
        refused(payload)

    def test_demands_hidden_in_a_stretch(self):
        stated = [[1, [[30, 0.9, 1.0, 2.0]]]]
        payload = payload_of("bare")
        payload["groups"] = stated
        payload["cases"][0]["blocks"] = [{"times": 1, "groups": stated}]
        payload["claim"]["mu"] = 0.5
        refused(payload)

    def test_negative_and_infinite_entries(self):
        for value in (-1.0, math.inf, -math.inf, math.nan, "inf", None, True, 10**400):
            for entry in (1, 2, 3):
                payload = payload_of("bare")
                payload["groups"][0][1][0][entry] = value
                for case in payload["cases"]:
                    for stretch in all_stretches(case):
                        stretch[entry] = value
                refused(payload)
            payload = payload_of("falling")
            payload["cases"][0]["q"][0] = value
            refused(payload)
            for key in ("distance", "tau", "first"):
                payload = payload_of("falling")
                payload["cases"][0][key] = value
                refused(payload)

    def test_no_mu_below_zero(self):
        for value in (-1.0, math.nan, "nan", "-inf", None, True, [], 10**400):
            for name in ("cyclic", "path", "bare"):
                payload = payload_of(name)
                payload["claim"]["mu"] = value
                refused(payload)


class TestComposed:
    def payload(self):
        both = pabi.compose(guarantee_of("cyclic"), guarantee_of("shuffle once"))
        return both, json.loads(both.certificate.to_json())

    def test_accepted(self):
        both, payload = self.payload()
        verdict = pabi.verify(payload)
        assert verdict.ok, verdict.reason
        assert verdict.assumptions == both.assumptions
        for epsilon in (0.0, 1.0):
            claimed = sum(float(w) * gaussian_delta(epsilon, mu) for w, mu in verdict.parts)
            assert claimed == pytest.approx(both.delta(epsilon), rel=1e-8)

    def test_a_part_that_is_wrong(self):
        for i in range(2):
            _, payload = self.payload()
            if i == 0:
                payload["parts"][i]["claim"]["mu"] *= LITTLE_LESS
            else:
                payload["parts"][i]["claim"]["mixture"][-1][1] *= LITTLE_LESS
            refused(payload, f"part {i + 1}")

    def test_fewer_parts(self):
        """Without one of the releases, only the other one is spoken of."""
        both, payload = self.payload()
        for i, name in enumerate(("shuffle once", "cyclic")):
            fewer = copy.deepcopy(payload)
            del fewer["parts"][i]
            verdict = pabi.verify(fewer)
            assert verdict.ok
            alone = pabi.verify(payload_of(name))
            assert [mu for _, mu in sorted(verdict.parts)] == pytest.approx(
                [mu for _, mu in sorted(alone.parts)], rel=1e-15
            )
            assert sum(w for w, _ in verdict.parts) == 1
            assert set(verdict.assumptions) < set(both.assumptions)
        payload["parts"] = []
        refused(payload)

    def test_another_adjacency(self):
        _, payload = self.payload()
        payload["adjacency"] = "zero_out"
        refused(payload, "adjacency")

    def test_parts_of_another_format(self):
        for key, value in (("format", "x"), ("version", 3)):
            _, payload = self.payload()
            payload["parts"][0][key] = value
            refused(payload, key)

    def test_nested(self):
        inner = pabi.compose(guarantee_of("cyclic"), guarantee_of("path"))
        outer = pabi.compose(inner, guarantee_of("bare"))
        verdict = pabi.verify(outer)
        assert verdict.ok, verdict.reason
        assert verdict.mu == outer.mu

    def test_nested_too_deeply(self):
        _, payload = self.payload()
        for _ in range(5000):
            payload = {
                "format": "pabi.certificate",
                "version": 1,
                "theorem": "composed",
                "adjacency": "replace_one",
                "parts": [payload],
            }
        try:
            verdict = pabi.verify(payload)
        except InvalidInput:
            return
        assert not verdict.ok


class TestForm:
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("format", "pabi.something"),
            ("format", None),
            ("format", []),
            ("version", 0),
            ("version", 3),
            ("version", "1"),
            ("version", None),
        ],
    )
    @pytest.mark.parametrize("as_text", [True, False])
    def test_another_format_or_version(self, key, value, as_text):
        payload = payload_of("cyclic")
        payload[key] = value
        with pytest.raises(InvalidInput) as error:
            pabi.verify(json.dumps(payload) if as_text else payload)
        assert error.value.field == key
        del payload[key]
        with pytest.raises(InvalidInput) as error:
            pabi.verify(payload)
        assert error.value.field == key

    @pytest.mark.parametrize(
        "value", ["", "{", "[]", "7", "null", "[" * 5000, 5, None, [], 1.5, b"{}"]
    )
    def test_not_an_object(self, value):
        with pytest.raises(InvalidInput):
            pabi.verify(value)

    def test_an_integer_too_long_to_read(self):
        with pytest.raises(InvalidInput):
            pabi.verify('{"format": ' + "1" * 5000 + "}")

    @pytest.mark.parametrize("run", [[], [1], 5, 0, "x", True, {}, {"kind": "noisy_iteration"}])
    @pytest.mark.parametrize("name", ["cyclic", "path", "bare"])
    def test_a_run_that_is_no_table(self, name, run):
        payload = payload_of(name)
        payload["run"] = run
        refused(payload)

    def test_a_run_of_another_kind(self):
        payload = payload_of("cyclic")
        payload["run"] = {
            "kind": "noisy_iteration",
            "contraction": 1.0,
            "step_sensitivity": 1.0,
            "step_noise_std": 1.0,
            "steps": 3,
        }
        refused(payload)

    def test_missing_keys(self):
        for name in ("cyclic", "falling", "reshuffle", "bare", "bare, written", "path"):
            for key in payload_of(name):
                if key in ("format", "version"):
                    continue
                payload = payload_of(name)
                del payload[key]
                verdict = pabi.verify(payload)
                assert not verdict.ok or (
                    too_small({**payload_of(name), **payload}, verdict) is None
                )

    def test_size_of_a_long_constant_run(self):
        run = NoisySGD(
            Loss.convex(smoothness=1.0, l2=0.01),
            n=10**6,
            batches=Cyclic(1000),
            steps=10**9,
            step_size=0.1,
            noise_std=1.0,
            gradient_sensitivity=10.0,
        )
        for changes in ({}, {"batches": FullBatch()}, {"diameter": 0.01}, {"release": "path"}):
            fields = {k: getattr(run, k) for k in run.__dataclass_fields__}
            g = NoisySGD(**{**fields, "epochs": None, **changes}).guarantee(delta=1e-7)
            assert len(g.certificate.to_json()) < 1000
            assert pabi.verify(g).ok
        long = NoisyIteration(
            contraction=0.9, step_sensitivity=1.0, step_noise_std=1.0, steps=10**9
        ).guarantee()
        assert len(long.certificate.to_json()) < 1000
        assert pabi.verify(long).ok

    @pytest.mark.parametrize("t", [10_000, pytest.param(100_000, marks=pytest.mark.nightly)])
    def test_size_of_many_different_steps(self, t):
        rng = np.random.default_rng(0)
        run = NoisySGD(
            Loss.convex(smoothness=1.0),
            n=100,
            batches=Cyclic(10),
            steps=t,
            step_size=rng.uniform(0.1, 1.0, t),
            noise_std=rng.uniform(0.1, 1.0, t),
            gradient_sensitivity=10.0,
        )
        g = run.guarantee(delta=DELTA, position=4)
        assert len(g.certificate.to_json()) < 50 * t
        assert pabi.verify(g.certificate.to_json()).ok
        it = NoisyIteration(
            contraction=rng.uniform(0.9, 1.05, t),
            step_sensitivity=rng.uniform(0.0, 1.0, t),
            step_noise_std=rng.uniform(0.1, 1.0, t),
        ).guarantee(delta=DELTA)
        assert len(it.certificate.to_json()) < 50 * t
        assert pabi.verify(it.certificate.to_json()).ok


# Random changes of the JSON of a certificate.

FUZZED = [
    "cyclic",
    "short last batch, shuffle once",
    "partial epochs, reshuffle",
    "diameter",
    "diameter, shuffle once",
    "falling, diameter",
    "rising, reshuffle",
    "logistic, clipped",
    "multiplier array",
    "path, shuffle once",
    "bare",
    "bare, start and diameter",
    "bare, diameter, written",
    "bare, start only",
]
ODDITIES = [
    None,
    [],
    {},
    "",
    "x",
    "inf",
    True,
    False,
    0,
    1,
    -1,
    1.5,
    1e300,
    [[]],
    [None],
    {"f8": "x"},
]
FACTORS = [0.0, -1.0, 0.5, 0.9, LITTLE_LESS, LITTLE_MORE, 1.1, 2.0, 10.0, 1e-300]


def nodes(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from nodes(value[key], (*path, key))
    elif isinstance(value, list):
        for i in range(len(value)):
            yield from nodes(value[i], (*path, i))


def mutate(payload, rng):
    """Change one node: perturb, replace, delete, double, or swap with a sibling."""
    paths = [p for p in nodes(payload) if p and p[0] not in ("format", "version")]
    path = paths[rng.integers(len(paths))]
    parent = payload
    for key in path[:-1]:
        parent = parent[key]
    key, value = path[-1], parent[path[-1]]
    action = rng.integers(10)
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    if numeric and action < 6:
        if isinstance(value, int):
            parent[key] = int(value + rng.choice([-1, 1, -value, value, 2, -2]))
        else:
            parent[key] = value * float(rng.choice(FACTORS))
    elif isinstance(value, dict) and set(value) == {"f8"} and action < 6:
        numbers = encoding.read_floats("x", value).copy()
        numbers[rng.integers(len(numbers))] *= rng.choice(FACTORS)
        parent[key] = encoding.floats(numbers)
    elif action < 7:
        del parent[key]
    elif action < 8 and isinstance(parent, list) and len(parent) > 1:
        other = int(rng.integers(len(parent)))
        parent[key], parent[other] = parent[other], parent[key]
    elif action < 9 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(value))
    else:
        parent[key] = copy.deepcopy(ODDITIES[rng.integers(len(ODDITIES))])
    return path, value, parent[key] if not isinstance(parent, list) and key in parent else None


@functools.cache
def fuzz(name, count):
    """(accepted changes that claim too little, errors other than InvalidInput)."""
    rng = np.random.default_rng([7, FUZZED.index(name)])
    lies, crashes = [], []
    original = payload_of(name)
    for _ in range(count):
        payload = copy.deepcopy(original)
        changes = [mutate(payload, rng) for _ in range(rng.integers(1, 3))]
        try:
            verdict = pabi.verify(json.loads(json.dumps(payload)))
        except InvalidInput:
            continue
        except Exception as error:
            crashes.append((changes, repr(error)))
            continue
        problem = too_small(payload, verdict)
        if problem is not None:
            lies.append((changes, problem))
    return lies, crashes


@pytest.mark.parametrize("count", [80, pytest.param(220, marks=pytest.mark.nightly)])
class TestFuzz:
    @pytest.mark.parametrize("name", FUZZED)
    def test_accepted_only_if_proven(self, name, count):
        lies, _ = fuzz(name, count)
        assert not lies, lies[0]

    @pytest.mark.parametrize("name", FUZZED)
    def test_never_an_exception(self, name, count):
        _, crashes = fuzz(name, count)
        assert not crashes, crashes[0]

    @pytest.mark.parametrize("name", ["cyclic", "falling", "bare, written"])
    def test_cut_or_garbled_text(self, name, count):
        text = guarantee_of(name).certificate.to_json()
        rng = np.random.default_rng(3)
        for _ in range(count // 2):
            i = int(rng.integers(len(text)))
            replaced = text[:i] + str(rng.choice(list('0123456789.-eE"[]{},:x'))) + text[i + 1 :]
            for garbled in (text[:i], replaced, text[:i] + text[i + 1 :]):
                try:
                    payload = json.loads(garbled)
                    verdict = pabi.verify(garbled)
                except (InvalidInput, json.JSONDecodeError):
                    continue
                assert too_small(payload, verdict) is None

"""Runs of every kind and their certificates; certificates that are forged by an edit, written as a line."""

import functools
import json
import re
import warnings

import numpy as np

import pabi
from pabi import Cyclic, Loss, NoisyIteration, NoisySGD, Reshuffle, ShuffleOnce
from pabi.numbers import encoding
from pabi.verification.granting import grant
from support.falsification.edits import is_packed

DELTA = 1e-3
LITTLE_LESS, LITTLE_MORE = 1 - 1e-6, 1 + 1e-6


# What must come of a certificate.


def accepted(guarantee):
    """The verdict on a guarantee that was written and read."""
    read = pabi.Guarantee.from_json(guarantee.to_json())
    verdict = pabi.verify(read, again=True)
    assert verdict.ok, verdict.reason
    assert read.verified
    return verdict


def granted(apply, description, delta, position=None):
    """What the kernel makes of one analysis. Raises NotApplicable as that does, and Refused."""
    return grant(description, apply(description, delta, position), position)


def refused(payload, *words):
    """The one line that says why it is refused, in which each of these patterns is found."""
    try:
        verdict = pabi.verify(payload)
    except pabi.InvalidInput as error:
        reason = str(error)
    else:
        assert not verdict.ok, verdict
        proven = (verdict.mu, verdict.parts, verdict.product, verdict.bounds, verdict.reading)
        assert proven == (None, (), None, (), None)
        reason = verdict.reason
    assert reason
    assert "\n" not in reason
    for word in words:
        assert re.search(word, reason), (word, reason)
    return reason


def with_reading(payload, epsilon, delta):
    """A certificate that claims a product as older versions write it: with its ε, which is composed anew."""
    (curve,) = payload["claim"].values()
    return payload | {"claim": {"product": curve}, "reading": {"delta": delta, "epsilon": epsilon}}


# Forgeries.


def forged(payload, edits):
    """A copy with edits: `run.n = 399; cases.0.q.-1 *= 0.9; plan.cap += 1; del run.diameter`.

    What follows the sign is JSON. `*=` multiplies all below that is no whole number, in packed arrays too.
    """
    payload = json.loads(json.dumps(payload))
    for edit in edits.split(";"):
        if edit.strip().startswith("del "):
            parent, key = _place(payload, edit.split()[1])
            del parent[key]
            continue
        path, sign, text = edit.strip().split(" ", 2)
        parent, key = _place(payload, path)
        value = json.loads(text)
        if sign == "+=":
            value = parent[key] + value
        elif sign == "*=":
            value = _scaled(parent[key], value)
        else:
            assert sign == "=", edit
        parent[key] = value
    return payload


def _place(payload, path):
    """What holds the last key of a path, arrays being unpacked, and that key."""
    *most, last = (int(key) if re.fullmatch(r"-?\d+", key) else key for key in path.split("."))
    parent, above = payload, None
    for key in most:
        parent, above = parent[key], (parent, key)
    if isinstance(last, int) and is_packed(parent):
        above[0][above[1]] = parent = encoding.read_floats("x", parent).tolist()
    return parent, last


def _scaled(value, factor):
    if is_packed(value):
        return (encoding.read_floats("x", value) * factor).tolist()
    if isinstance(value, dict):
        return {key: _scaled(part, factor) for key, part in value.items()}
    if isinstance(value, list):
        return [_scaled(part, factor) for part in value]
    return value * factor if isinstance(value, float) else value


def forgeries(table):
    """{name of an honest one: [(edits, pattern of the reason), …]} from lines `name | edits | pattern`.

    A line without a name is about the one above it.
    """
    found, name = {}, None
    for line in table.strip().splitlines():
        named, edits, reason = (part.strip() for part in line.split("|", 2))
        name = named or name
        found.setdefault(name, []).append((edits, reason))
    return found


def all_refused(payload, lines):
    for edits, reason in lines:
        try:
            refused(forged(payload, edits), reason)
        except BaseException as error:
            error.add_note(f"of the forgery {edits}")
            raise


# Runs.


class Box:
    """A proximal map whose range has a diameter."""

    diameter = 1.5

    def __call__(self, x, step_size):
        return np.clip(x, -0.75, 0.75)

    def __repr__(self):
        return "Box(1.5)"


def sgd(**changes):
    fields = {"loss": Loss.convex(smoothness=1.0, l2=0.05), "n": 40, "batches": Cyclic(size=8)}
    fields |= {"epochs": 6, "step_size": 0.3, "noise_std": 1.0, "gradient_sensitivity": 8.0}
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
    "full batch": sgd(batches=pabi.FullBatch(), gradient_sensitivity=40.0),
    "shuffle once": sgd(batches=ShuffleOnce(8)),
    "reshuffle": sgd(batches=Reshuffle(8)),
    "short last batch": sgd(batches=Cyclic(7)),
    "short last batch, shuffle once": sgd(batches=ShuffleOnce(7)),
    "short last batch, reshuffle": sgd(batches=Reshuffle(7)),
    "spare, shuffle once": sgd(batches=ShuffleOnce(7, spare=5)),
    "spare, reshuffle": sgd(batches=Reshuffle(7, spare=5)),
    "spare, partial epochs": sgd(epochs=3.4, batches=Reshuffle(8, spare=16)),
    "spare, less than an epoch": sgd(epochs=0.5, batches=ShuffleOnce(7, spare=3)),
    "spare, expansive": sgd(loss=Loss.nonconvex(0.5), batches=ShuffleOnce(7, spare=12)),
    "spare, expansive, reshuffle": sgd(loss=Loss.nonconvex(0.5), batches=Reshuffle(7, spare=12)),
    "spare, path": sgd(release="path", epochs=2.5, batches=ShuffleOnce(7, spare=5)),
    "spare, path, reshuffle": sgd(release="path", epochs=2.5, batches=Reshuffle(7, spare=5)),
    "bins every epoch": sgd(batches=pabi.BallsInBins(8, redraw="epoch")),
    "bins every epoch, expansive": sgd(
        loss=Loss.nonconvex(0.5),
        batches=pabi.BallsInBins(8, 16, redraw="epoch"),
        adjacency="zero_out",
    ),
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
    "falling, reshuffle, short": scheduled(14, step_size=FALLING[:14], batches=Reshuffle(7)),
    "expanding, reshuffle": scheduled(
        30, step_size=FALLING, loss=Loss.nonconvex(3.0), batches=Reshuffle(7)
    ),
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
    "softmax, residual": sgd(loss=Loss.softmax(3.0, l2=0.1), clipping="residual", **CLIPPED),
    "one against the rest, residual": sgd(
        loss=Loss.one_vs_rest(3.0, 4), clipping="residual", batches=Reshuffle(7), **CLIPPED
    ),
    "vector huber, residual": sgd(
        loss=Loss.vector_huber(1.2, 3.0), clipping="residual", batches=ShuffleOnce(7), **CLIPPED
    ),
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


# Its certificate claims something that a little less would be too little of.
POSITIVE = [
    name
    for name in RUNS
    if name not in ("bare, no noise", "bare, nothing to hide") and "slope zero" not in name
]


@functools.cache
def guarantee_of(name, position=None):
    keywords = {} if position is None else {"position": position}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RUNS[name].guarantee(delta=DELTA, **keywords)


def payload_of(name, position=None):
    """A fresh copy of the certificate's JSON object, by way of its text."""
    return guarantee_of(name, position).certificate.payload

"""Updates with a state: what they do, that they survive a crash, and that composition is all that holds."""

import json
import math

import numpy as np
import pytest

import pabi
from pabi import updates
from pabi.describe.files import from_dict, to_dict
from pabi.learn import train
from pabi.numbers.errors import InvalidInput, PrivacyWarning
from support.every_case import every, refused
from support.execution import Crash, Silent, held, spoil

CENTRES = np.array([[-1.0, 2.0], [0.5, 0.25], [2.0, -1.0], [0.0, 3.0], [1.0, 1.0]])
STEP, START = 0.1, np.array([3.0, -2.0])


def run_of(update, **changes):
    """Five records in batches of two, two and one; three epochs and two steps of cool-down."""
    given = {"n": 5, "batches": pabi.Cyclic(2), "epochs": 3, "cooldown_steps": 2}
    given |= {"step_size": STEP, "noise_std": 1.0, "clip_norm": 1e3, "update": update}
    return pabi.NoisySGD(pabi.Loss.strongly_convex(1.0, 1.0, l2=0.5), **{**given, **changes})


def gradients(x, rows):
    return x - CENTRES[rows]


def silently(update):
    """The last iterate without noise."""
    with pytest.warns(PrivacyWarning):
        return train(run_of(update), gradients, START, Silent()).x


def directions(x, k):
    """The noiseless direction of step k at x: batch sum over two, and the regulariser."""
    batches = [[0, 1], [2, 3], [4]]
    total = sum((x - CENTRES[i] for i in batches[k % 3]), np.zeros(2)) / 2.0 if k < 9 else 0.0
    return total + 0.5 * x


def heavy_ball(momentum, nesterov):
    """As PyTorch documents its SGD."""

    def path(x):
        v = 0.0
        for k in range(11):
            g = directions(x, k)
            v = momentum * v + g
            x = x - STEP * (g + momentum * v if nesterov else v)
        return x

    return path


def adaptive(first, second, eps):
    """Algorithm 1 of Kingma and Ba."""

    def path(x):
        m = v = 0.0
        for k in range(11):
            g = directions(x, k)
            m = first * m + (1.0 - first) * g
            v = second * v + (1.0 - second) * g**2
            corrected = m / (1.0 - first ** (k + 1)), v / (1.0 - second ** (k + 1))
            x = x - STEP * corrected[0] / (np.sqrt(corrected[1]) + eps)
        return x

    return path


BY_HAND = {
    updates.Momentum(0.9): heavy_ball(0.9, False),
    updates.Momentum(0.5, nesterov=True): heavy_ball(0.5, True),
    updates.Momentum(0.0): heavy_ball(0.0, False),
    updates.Adam(): adaptive(0.9, 0.999, 1e-8),
    updates.Adam(betas=(0.5, 0.25), eps=0.5): adaptive(0.5, 0.25, 0.5),
}


@every("update", BY_HAND)
def test_every_step_is_the_described_one(unrounded, update):
    assert silently(update) == pytest.approx(BY_HAND[update](START), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("update", BY_HAND, ids=repr)
@every("at", [1, 4, 8])
def test_a_crash_loses_no_state(unrounded, monkeypatch, tmp_path, update, at):
    """Without noise the parts of an interrupted run are the whole run."""
    calls, path = [], tmp_path / "run.ckpt"

    def broken(x, rows):
        if len(calls) == at:
            raise Crash
        calls.append(rows)
        return gradients(x, rows)

    kept = {"checkpoint_seconds": 0.0, "checkpoint": path}
    with pytest.warns(PrivacyWarning), pytest.raises(Crash):
        train(run_of(update), broken, START, Silent(), **kept)
    with pytest.warns(PrivacyWarning):
        x = train(run_of(update), gradients, START, Silent(), resume=path).x
    assert x == pytest.approx(BY_HAND[update](START), rel=1e-12, abs=1e-12)


@every("update", [updates.Momentum(0.9), updates.Adam()])
def test_a_checkpoint_with_another_state_is_refused(tmp_path, update):
    """What no run can be in: parts that are gone, too many, of another shape or type, or infinite."""
    path = tmp_path / f"{update}.ckpt"

    def broken(x, rows):
        if path.exists():
            raise Crash
        return gradients(x, rows)

    with pytest.raises(Crash):
        train(run_of(update), broken, START, checkpoint=path, checkpoint_seconds=0.0)
    state, whole = held(path)["update_0"], path.read_bytes()
    spoilt = [{"update_1": -np.abs(state) - 1.0}]  # of Adam's a second moment below zero
    if update == updates.Momentum(0.9):
        odd = [None, state[:1], state * math.inf, state.astype(np.float32)]
        spoilt = [{"update_1": state}, *({"update_0": part} for part in odd)]
    for changes in spoilt:
        path.write_bytes(whole)
        spoil(path, **changes)
        with pytest.raises(InvalidInput, match=r"^resume: .* state that no run can be in"):
            train(run_of(update), gradients, START, resume=path)


@pytest.mark.parametrize("update", BY_HAND, ids=repr)
def test_only_composition_holds(update):
    run = run_of(update)
    explained = run.explain(1e-5)
    assert [row.method for row in explained if row.applies] == ["composition"]
    assert run.guarantee(1e-5).mu == run_of("other").guarantee(1e-5).mu
    assert run_of("sgd").guarantee(1e-5).mu < 0.9 * run.guarantee(1e-5).mu


@every("update", BY_HAND)
def test_no_proof_of_descent_passes_for_another_update(update):
    """The certificate of plain descent, with the update swapped in its description."""
    payload = run_of("sgd").guarantee(1e-5).certificate.payload
    assert payload["theorem"] != "composition"
    payload["run"]["update"] = update.to_dict()
    verdict = pabi.verify(payload)
    assert not verdict.ok
    assert "plain noisy SGD" in verdict.reason


@every("update", [*BY_HAND, "sgd", "other", updates.Other()])
def test_files_keep_the_update(update):
    run = run_of(update)
    again = from_dict(json.loads(json.dumps(to_dict(run))))
    assert (again, again.rule) == (run, run.rule)


def test_descent_by_its_name_and_as_an_object_is_the_same_run():
    assert run_of(updates.SGD()) == run_of("sgd") != run_of(updates.Momentum(0.9))


PLAIN = to_dict(run_of("sgd"))
REFUSED = {
    "momentum": [lambda m=m: updates.Momentum(m) for m in (1.0, -0.1, math.nan)],
    "nesterov": [lambda: updates.Momentum(0.9, nesterov=1)],
    "betas": [lambda b=b: updates.Adam(betas=b) for b in ((0.9, 1.0), 0.9, (0.9, 0.99, 0.999))],
    "eps": [lambda: updates.Adam(eps=0.0)],
    "update": [
        *(lambda u=u: run_of(u) for u in ("momentum", updates.Momentum)),
        *(lambda u=u: from_dict({**PLAIN, "update": u}) for u in ({"kind": "adamw"}, 3)),
    ],
    "x": [lambda: from_dict({**PLAIN, "update": {"kind": "sgd", "x": 1}})],
}


@every("field", REFUSED)
def test_bad_updates_name_the_field(field):
    """And what is only accounted for is not trained."""
    for build in REFUSED[field]:
        refused(field, build)
    refused("update", train, run_of(updates.Other()), gradients, [0.0, 0.0])


def test_noisy_gradients_lie_on_a_grid(monkeypatch):
    """What an update makes of them is post-processing of numbers whose low-order bits say nothing."""
    seen = []

    def step(self, x, direction, step_size, state, k):
        seen.append(direction - 0.5 * x)
        return x, state

    monkeypatch.setattr(updates.Momentum, "step", step)
    train(run_of(updates.Momentum(0.9)), gradients, [0.0, 0.0], 1)
    grid = 2.0**-39  # at most 2⁻³⁸ of the noise is a power of two
    assert all(np.array_equal(np.rint(g / grid) * grid, g) for g in seen)
    assert any(np.any(np.rint(g * 2.0**30) != g * 2.0**30) for g in seen)


def test_adam_moves_however_large_the_noise_is():
    """Its steps have the size of η and not of ης: the grid of what plain descent releases is too coarse."""
    run = run_of(updates.Adam(), noise_std=1e7, release="path")
    shown = []
    train(run, gradients, [0.0, 0.0], watch=lambda step, x: shown.append(x))
    assert all(np.any(x != 0.0) for x in shown)

"""How often the commonest commands call a solver: speed that a machine's load cannot blur.

A bound follows from the run: one problem for each position that a record can have, at each noise level that
a search tries. It is not what was counted once.
"""

import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import pabi
from pabi import Cyclic, FullBatch, LangevinChain, Loss, NoisySGD, Poisson, Reshuffle, ShuffleOnce
from pabi.cli import main
from pabi.learn import LogisticGradients, PrivateLogisticRegression, bound_rows, train

EXAMPLES = Path(__file__).parents[1] / "examples"
SOLVERS = {
    "linear": ("pabi.account.shifts.isotonic.solve", "pabi.account.shifts.periodic.best_start"),
    "bent": ("pabi.account.shifts.nonlinear.solve",),
    "random": ("pabi.account.shifts.random.lead_in", "pabi.account.shifts.random.two_sided"),
    "convolution": ("pabi.tradeoff.convolution.profile",),
}
READINGS = 12  # noise levels that a search may try: secants need about half as many
BATCHES = 40
# Payments in advance: of every position afterwards, of what is before the last uses for the last ones, and
# for each plan that is tried.
LATE, PLANS = 16, 8
ONE = 1 + 1 + 2 * LATE + PLANS
EVERY = 2 * BATCHES + 1 + LATE + PLANS
BEFORE = 4  # ranges of places in the epoch before the last one
STARTS = 20  # where to begin to pay, among 1000 steps: two problems for each halving


def run(batches, **changes):
    settings = {"loss": Loss.logistic(1.0, l2=1e-3), "n": 1000, "batches": batches, "epochs": 5}
    settings |= {"step_size": 0.5, "noise_multiplier": 2.0, "clip_norm": 1.0}
    return NoisySGD(**{**settings, **changes})


SHUFFLED = run(ShuffleOnce(25))
FILE = SHUFFLED.guarantee(1e-6).to_json()
ROWS = np.random.default_rng(0).normal(size=(1000, 3)) / 3
CHAIN = LangevinChain(
    Loss.logistic(1.0), n=1000, step_size=0.1, steps=1000, inverse_temperature=100.0, diameter=4.0
)
GRADIENTS = LogisticGradients(bound_rows(ROWS, 1.0), ROWS[:, 0] > 0)
FITTED = PrivateLogisticRegression(1.0, 1e-4, feature_norm=2.0, batches=ShuffleOnce(25))
COMMANDS = {
    "a fixed order": (lambda: run(Cyclic(25)).guarantee(1e-6), {"linear": ONE}),
    "all data": (lambda: run(FullBatch()).guarantee(1e-6), {"linear": ONE}),
    "shuffled once": (lambda: SHUFFLED.guarantee(1e-6), {"linear": EVERY}),
    "reshuffled": (
        lambda: run(Reshuffle(25)).guarantee(1e-6),
        {"linear": BEFORE * (2 * BATCHES + LATE + PLANS)},
    ),
    "Poisson": (lambda: run(Poisson(25)).guarantee(1e-6), {"random": 16, "convolution": 16}),
    "explain": (lambda: SHUFFLED.explain(1e-6), {"linear": EVERY}),
    "calibrate": (lambda: pabi.calibrate(SHUFFLED, 1.0, 1e-6), {"linear": READINGS * EVERY}),
    "certificate": (lambda: SHUFFLED.guarantee(1e-6).certificate.to_json(), {"linear": EVERY}),
    "verify": (lambda: pabi.verify(FILE), {}),
    "a chain": (lambda: CHAIN.guarantee(1e-6), {"linear": STARTS + 2 + PLANS, "bent": 1}),
    # As described, and with the noise that rounding takes.
    "train": (lambda: train(SHUFFLED, GRADIENTS, np.zeros(3), delta=1e-6), {"linear": 2 * EVERY}),
    "fit": (lambda: FITTED.fit(ROWS, ROWS[:, 0] > 0), {"linear": READINGS * EVERY}),
    "account on the command line": (
        lambda: main(["account", str(EXAMPLES / "mnist-cyclic.toml"), "--delta", "1e-6"]),
        {"linear": ONE},
    ),
}


def counted(command):
    """How often `command` calls each kind of solver."""
    kinds = {}
    for kind, names in SOLVERS.items():
        for name in names:
            module, _, function = name.rpartition(".")
            kinds[getattr(import_module(module), function).__code__] = kind
    calls = Counter()

    def note(frame, event, _):
        if event == "call" and frame.f_code in kinds:
            calls[kinds[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        command()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("name", COMMANDS)
def test_no_more_problems_are_solved_than_there_are(name):
    command, most = COMMANDS[name]
    calls = counted(command)
    assert {kind: calls[kind] for kind in SOLVERS if calls[kind] > most.get(kind, 0)} == {}


def test_what_has_to_be_solved_is_counted():
    assert counted(COMMANDS["a fixed order"][0])["linear"] > LATE
    assert counted(COMMANDS["shuffled once"][0])["linear"] >= BATCHES

"""The verifier on plans with the law of a distance."""

import json

import pytest

import pabi
from support.certificates import all_refused, forged, forgeries, refused

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
DELTA = 1e-5


def a_run(batches, **changes):
    settings = {"loss": pabi.Loss.logistic(feature_norm=2.0, l2=0.1), "n": 500, "epochs": 10}
    settings |= {"step_size": 0.5, "noise_multiplier": 1.5, "clip_norm": 1.0}
    return pabi.NoisySGD(batches=batches, **settings | changes)


RUNS = {
    "poisson": a_run(pabi.Poisson(50, cap=100), adjacency="zero_out"),
    "poisson, replaced": a_run(pabi.Poisson(50, cap=100)),
    "fixed size": a_run(pabi.FixedSize(50)),
    "fixed size, zeroed, cool-down": a_run(
        pabi.FixedSize(50), adjacency="zero_out", cooldown_steps=3
    ),
    "falling": a_run(pabi.Poisson(50, cap=100), step_size=lambda k: 0.5 / (1.0 + 0.01 * k)),
}


@pytest.fixture(scope="module")
def files():
    return {name: run.guarantee(DELTA) for name, run in RUNS.items()}


@pytest.mark.parametrize("name", RUNS)
def test_the_law_helps(files, name):
    assert "drawn" in files[name].certificate.payload["plan"]
    assert files[name].epsilon(DELTA) < files[name].composition.epsilon(DELTA)


FORGED = """
    | certificate.plan.drawn.distances *= 0.99 | factors|mu
    | certificate.plan.drawn.tilts *= 1.2 | factors|mu
    | certificate.plan.drawn.tilts *= 0.8 | factors|mu
    | del certificate.plan.drawn.lengths.0 | factors|mu|largest|prove
    | certificate.plan.drawn.tilts = [] | drawn: expected
    | del certificate.plan.drawn.tilts.0 | tilt|malformed|expected
    | certificate.plan.drawn.tilts *= -1.0 | tilts and distances > 0
    | certificate.plan.drawn.distances *= 1e400 | finite|distances > 0|expected
    | certificate.plan.drawn.lengths = [] | lengths:
    | certificate.plan.drawn.lengths = [1000000000] | lengths:
    | certificate.plan.drawn.more = 1 | unknown key
    | del certificate.plan.drawn.tilts | tilts
    | certificate.plan.pulls = [0.0] | drawn:
"""


def test_forgeries_are_refused(files):
    poisson, falling = (json.loads(files[name].to_json()) for name in ("poisson", "falling"))
    all_refused(poisson, forgeries(FORGED)[None])
    refused(forged(falling, "certificate.plan.drawn.lengths = [2]"), "not alike")
    for curve in ("certificate.claim.tradeoff", "tradeoff"):  # less of the dearest parts
        factors = poisson["certificate"]["claim"]["tradeoff"]["factors"]
        i = [factor["kind"] for factor in factors].index("mixture")
        for shrink in (1.0 - 3e-9, 0.9):
            refused(forged(poisson, f"{curve}.factors.{i}.mus *= {shrink}"))


def test_tails_that_are_next_to_nothing_are_counted_as_more(files):
    """Rational numbers of more digits than memory holds ended the process."""
    poisson = json.loads(files["poisson"].to_json())
    for tilt in (1e9, 1e12, 1e15, 1e200):
        steep = forged(poisson, f"certificate.plan.drawn.tilts *= {tilt!r}")
        refused(forged(steep, "certificate.plan.drawn.distances *= 1e3"), "factors|mu|drawn")

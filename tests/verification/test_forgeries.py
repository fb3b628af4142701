"""Every edit of every honest file is refused in one clear line, or claims no less than is proven.

The places, edits and the judge of what is accepted are in `support.falsification.forgeries`. A part is drawn
by day, of every kind of place and edit; `make nightly` tries more.
"""

from __future__ import annotations

import pytest

from pabi.numbers import encoding
from pabi.verification import certificates, theorems
from pabi.verification.factors.gaussians import Gaussians
from pabi.verification.theorems import shifted_interpolation
from support.falsification.forgeries import files_of, problems

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

# One of how many kinds of forgeries is tried a day, so that a theorem takes about a second.
ONE_IN = {
    "composed": 800,
    "composition": 30,
    "composition, random batches": 250,
    "nonlinear one-sided shift": 60,
    "nonlinear shifts": 150,
    "one-sided shift": 250,
    "secret order": 250,
    "shifted interpolation": 250,
    "two-sided shift": 250,
    "unlearning, random batches": 600,
    "adaptive composition": 400,
    "epoch by epoch": 30,
    "latest uses": 30,
    "bounded range and Gibbs measure": 24,
    "unlearning": 12,
    "unlearning, composition": 100,
    "adaptive composition of divergences": 100,
    "private selection": 12,
    "secret place": 8,
    "group privacy": 4,
    "last point": 4,
    "path": 2,
    "unlearning, any modulus": 4,
}
THEOREMS = [*theorems.table(), "composition, random batches"]


@pytest.fixture(scope="module", autouse=True)
def _files():
    files_of()


@pytest.mark.parametrize("theorem", THEOREMS)
def test_forgeries_are_refused_or_claim_enough(theorem):
    tried, wrong = problems(theorem, ONE_IN.get(theorem, 1))
    assert not wrong, "\n".join(wrong[:9])
    assert tried


@pytest.mark.nightly
@pytest.mark.parametrize("theorem", THEOREMS)
def test_ten_times_as_many(theorem):
    tried, wrong = problems(theorem, max(1, ONE_IN.get(theorem, 1) // 10))
    assert not wrong, "\n".join(wrong[:9])
    assert tried


def test_there_are_files_of_every_theorem():
    assert set(files_of()) == set(THEOREMS)


# Faults of a checker, each of which the loop has to find in the forgeries of a theorem.


def _a_condition_left_out(patch):
    """Nobody compares what is claimed with what is proven."""
    patch.setattr(Gaussians, "missing", lambda proven, claimed: None)


def _a_wrong_sign(patch):
    """A start has to be no further apart than the diameter, instead of no less."""

    def check_start(case, diameter, start):
        assert case["distance"] <= (start if case["tau"] == 0 else diameter)
        return case["distance"]

    patch.setattr(shifted_interpolation, "check_start", check_start)


def _an_ignored_key(patch):
    patch.setattr(certificates, "closed", lambda what, table, keys: None)


def _an_accepted_nan(patch):
    patch.setattr(encoding, "_no_constant", lambda name: 0.0)


def _no_look_at_duplicates(patch):
    patch.setattr(encoding, "_once_each", dict)


FAULTS = (
    ("Gaussian mechanism", _a_condition_left_out),
    ("shifted interpolation", _a_wrong_sign),
    ("column statistics", _an_ignored_key),
    ("path", _an_accepted_nan),
    ("stated mechanism", _no_look_at_duplicates),
)


@pytest.mark.parametrize(("theorem", "fault"), FAULTS)
def test_planted_faults_are_found(theorem, fault, monkeypatch):
    fault(monkeypatch)
    _, wrong = problems(theorem, ONE_IN.get(theorem, 1) // 4 or 1)
    assert wrong

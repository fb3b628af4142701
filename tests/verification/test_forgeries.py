"""Every edit of every honest file is refused in one clear line, or claims no less than is proven.

The places, edits and the judge of what is accepted are in `support.falsification.forgeries`. A part is drawn
by day, of every kind of place and edit; `make nightly` tries more.
"""

import math

import pytest

import pabi
from pabi.numbers import encoding
from pabi.verification import certificates, theorems
from pabi.verification.factors.closed_forms import Gaussians
from pabi.verification.theorems import mechanisms
from support.daily import of_today
from support.falsification.forgeries import (
    SAMPLED,
    drawn,
    files_of,
    lowered_forgeries,
    problem_with,
    problems,
    random_problems,
)

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

# How many forgeries are tried a day, so that a theorem takes about a second; of the others 400.
COUNTS = {
    "adaptive composition": 40,
    "adaptive composition of divergences": 40,
    "composed": 60,
    "composition": 200,
    SAMPLED: 12,
    "epoch by epoch": 250,
    "latest uses": 250,
    "secret place": 200,
    "joint payments": 20,
    "nonlinear one-sided shift": 9,
    "nonlinear shifts": 200,
    "one-sided shift": 8,
    "Gaussian mechanism": 1200,
    "column statistics": 1000,
    "private selection": 400,
    "secret order": 200,
    "secret groups": 30,
    "secret steps": 30,
    "two-sided shift": 8,
    "unlearning, random batches": 4,
}
THEOREMS = [*theorems.table(), SAMPLED]


@pytest.fixture(scope="module", autouse=True)
def _files():
    files_of()


@pytest.mark.parametrize("theorem", THEOREMS)
def test_honest_files_are_accepted(theorem):
    """Written, read and verified within the limits of a file: of every kind of description and proof."""
    for name, text in files_of()[theorem].items():
        verdict = pabi.verify(text)
        assert verdict.ok, (name, verdict.reason)


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("theorem", THEOREMS)
def test_forgeries_are_refused_or_claim_enough(theorem, times):
    tried, wrong = problems(theorem, COUNTS.get(theorem, 400) * times)
    assert not wrong, "\n".join(wrong[:9])
    assert tried


# Of random descriptions of every kind: how many questions, and how many forgeries of each certificate.
QUESTIONS, OF_EACH = 4, 8


def check_random(begin, count, each):
    tried, wrong = random_problems(range(begin, begin + count), each)
    assert not wrong, "\n".join(wrong[:9])
    assert tried


def test_forgeries_of_random_descriptions():
    check_random(of_today("questions") % 10**6, QUESTIONS, OF_EACH)


def less_is_refused(begin, count, each):
    """With any edit of its proof."""
    for number in range(begin, begin + count):
        for forgery, file, honest in lowered_forgeries(number, each):
            assert problem_with(forgery, file, honest) is None, str(forgery)


def test_no_edit_of_a_proof_proves_less():
    less_is_refused(of_today("less") % 10**6, QUESTIONS, OF_EACH)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_no_edit_of_many_proofs_proves_less(part):
    less_is_refused(of_today(f"less {part}") % 10**9, 10 * QUESTIONS, None)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_many_more_of_random_descriptions(part):
    check_random(of_today(f"questions {part}") % 10**9, 10 * QUESTIONS, 3 * OF_EACH)


def test_there_are_files_of_every_theorem():
    assert set(files_of()) == set(THEOREMS)


# Faults of a checker, each of which the loop has to find in the forgeries of a theorem.


def _a_condition_left_out(patch):
    """Nobody compares what is claimed with what is proven."""
    patch.setattr(Gaussians, "missing", lambda proven, claimed: None)


def _a_factor_too_small(patch):
    """What shifts cost counts for two thirds."""
    mu_of = mechanisms.mu_of
    patch.setattr(mechanisms, "mu_of", lambda cost: mu_of(cost / 1.5))


def _an_ignored_key(patch):
    patch.setattr(certificates, "closed", lambda what, table, keys: None)


def _an_accepted_nan(patch):
    patch.setattr(encoding, "_no_constant", lambda name: 0.0)


def _no_look_at_duplicates(patch):
    patch.setattr(encoding, "_once_each", dict)


FAULTS = (
    ("Gaussian mechanism", _a_condition_left_out),
    ("last point", _a_factor_too_small),
    ("column statistics", _an_ignored_key),
    ("path", _an_accepted_nan),
    ("stated mechanism", _no_look_at_duplicates),
)


@pytest.mark.parametrize(("theorem", "fault"), FAULTS)
def test_planted_faults_are_found(theorem, fault, monkeypatch):
    fault(monkeypatch)
    every = drawn(theorem, math.inf)
    assert any(problem_with(one, file, files_of()[theorem][one.name]) for one, file in every)

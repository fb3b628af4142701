"""Every edit of every honest file is refused in one clear line, or claims no less than is proven.

The places, edits and the judge of what is accepted are in `support.falsification.forgeries`. A part is drawn by day,
of every kind of place and edit; `make nightly` tries more.
"""

from __future__ import annotations

import pytest

from pabi.verification import theorems
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

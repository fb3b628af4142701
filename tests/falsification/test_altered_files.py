"""Files from strangers: none that claims more than its proof is accepted, and every answer comes within 10 s
and 500 MB."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import pabi
from pabi.tradeoff import Gaussian
from pabi.tradeoff.certificate import Certificate
from support.falsification.altered_files import MOST_MEGABYTES, MOST_SECONDS
from support.falsification.honest_files import honest_files
from support.falsification.hostile_files import FILES, OFTEN

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


def outcome(script, *arguments):
    """What a script of `support.falsification` prints, in a process of its own."""
    command = [sys.executable, "-m", f"support.falsification.{script}", *map(str, arguments)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def check(kind, begin, end):
    """Refuse wrong answers, and long ones, to the alterations of these seeds."""
    found = outcome("altered_files", kind, begin, end)
    assert not found["wrong"], "\n".join(found["wrong"][:20])
    assert found["slowest"][0] <= MOST_SECONDS, found["slowest"]
    assert found["megabytes"] <= MOST_MEGABYTES
    assert sum(found["counted"].values()) == end - begin


def test_honest_files_are_accepted():
    for name, text in honest_files().items():
        verdict = pabi.verify(text)
        assert verdict.ok, (name, verdict.reason)


@pytest.mark.parametrize(("kind", "end"), [("structural", 300), ("arithmetic", 180)])
def test_altered(kind, end):
    check(kind, 0, end)


@pytest.mark.nightly
@pytest.mark.parametrize("tenth", range(10))
def test_structure_altered_at_night(tenth):
    check("structural", 10_000 * tenth, 10_000 * (tenth + 1))


@pytest.mark.nightly
def test_numbers_altered_at_night():
    """A thousand of each of nine kinds."""
    check("arithmetic", 0, 9_000)


def check_hostile(names):
    for name, seconds, said, fine, megabytes in outcome("hostile_files", *names):
        assert fine, (name, said)
        assert seconds <= MOST_SECONDS, (name, seconds)
        assert megabytes <= MOST_MEGABYTES, (name, megabytes)


def test_hostile_files_of_every_sort():
    check_hostile(OFTEN)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(0, len(FILES), 6))
def test_hostile_files(first):
    check_hostile([*FILES][first : first + 6])


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
        for changes in [
            {"curve": Gaussian(0.01)},
            {"curve": Gaussian(1.2498)},
            {"adjacency": "zero_out"},
            {"method": "composition"},
            {"source": "nobody"},
            {"assumptions": ()},
            {"besides": ()},
            {"tuned_at": 0.5},
            {"notes": {"ε": 0.0}},
        ]:
            changed = replace(guarantee, **changes)
            implied = set(changes) <= {"tuned_at", "notes", "besides"}
            assert not changed.verified, changes
            assert pabi.verify(changed).ok is implied, changes
            assert changed.verified is implied, changes
            assert guarantee.verified, changes

    def test_set_in_place(self, guarantee):
        for field, value in [
            ("curve", Gaussian(0.01)),
            ("adjacency", "zero_out"),
            ("method", "composition"),
            ("source", "nobody"),
            ("assumptions", ()),
        ]:
            honest = getattr(guarantee, field)
            object.__setattr__(guarantee, field, value)
            assert not guarantee.verified, (field, value)
            assert not pabi.verify(guarantee).ok, (field, value)
            object.__setattr__(guarantee, field, honest)
            assert pabi.verify(guarantee).ok, (field, value)

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

    def test_another_text_of_a_certificate_is_not_verified(self, guarantee):
        proof = guarantee.certificate
        proof._text = proof._text.replace('"claim"', '"claim" ')
        assert proof.verdict is None
        assert not guarantee.verified

    def test_another_certificate_is_not_verified(self, guarantee):
        object.__setattr__(guarantee, "certificate", Certificate(guarantee.certificate.payload))
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

    def test_an_epsilon_that_was_written_into_what_was_read(self, guarantee):
        delta = guarantee.tuned_at
        guarantee._read[guarantee.curve, delta] = 0.0
        assert not guarantee.verified

    def test_refused_after_accepted(self, guarantee):
        """What was said last counts."""
        assert not pabi.verify(guarantee, seconds=-1.0).ok
        assert not guarantee.verified

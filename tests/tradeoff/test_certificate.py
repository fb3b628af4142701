"""The envelope of a proof: its text, its format, and the assumptions that are added to it.

What the checker makes of certificates, and what a verdict is bound to, is tested with the checker.
"""

import copy
import itertools
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi import InvalidInput
from pabi.tradeoff.certificate import FORMAT, VERSION, VERSIONS, Certificate, check_format
from support.every_case import every, refused

sentences = st.lists(st.sampled_from(["a", "b", "c", "d é"]), max_size=5)
BODY = {"theorem": "t", "adjacency": "zero_out", "claim": {"mu": 0.5}}


class Written:
    """A proof of nothing."""

    theorem = "t"

    def __init__(self, **body):
        self.body = body

    def written(self):
        return self.body


def payload_of(version=VERSION, **more):
    return {"format": FORMAT, "version": version, **BODY, **more}


def test_the_envelope_says_format_version_theorem_and_whom():
    found = Certificate.of(Written(claim={"mu": 0.5}), "zero_out", ["a", "b"])
    assert found.payload == payload_of(assumes=["a", "b"])
    assert list(found.payload)[:5] == ["format", "version", "theorem", "adjacency", "assumes"]
    assert VERSION in VERSIONS
    assert max(VERSIONS) == VERSION
    assert found.verdict is None


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.text(max_size=5),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=3), json_values, max_size=4))
def test_a_text_says_what_the_object_said(body):
    payload = payload_of() | body | {"format": FORMAT, "version": VERSION}
    proof = Certificate(payload)
    assert proof.payload == json.loads(proof.to_json()) == payload
    for again in (
        Certificate.from_json(proof.to_json()),
        Certificate.from_dict(payload),
        copy.deepcopy(proof),
    ):
        assert again.to_json() == proof.to_json()


def test_every_copy_of_the_object_is_a_new_one():
    proof = Certificate(payload_of(run={"n": 3}))
    proof.payload["run"]["n"] = 4
    assert proof.payload["run"]["n"] == 3
    stated = payload_of(run={"n": 3})
    proof = Certificate(stated)
    stated["run"]["n"] = 4
    assert proof.payload["run"]["n"] == 3


def test_what_json_cannot_hold_is_refused():
    circle, tower = payload_of(), []
    circle["run"] = circle
    for _ in range(100_000):
        tower = [tower]
    bad = [payload_of(mu=x) for x in (math.nan, math.inf, 1j, {1, 2}, b"1")]
    for payload in (*bad, circle, payload_of(run={(1, 2): 3}), payload_of(run=tower)):
        with pytest.raises(InvalidInput, match="^json: expected what JSON can hold: ") as refused:
            Certificate(payload)
        assert "\n" not in str(refused.value)


@every("version", VERSIONS)
def test_known_versions_are_read(version):
    data = payload_of(version)
    assert check_format(data, FORMAT, VERSIONS) is data
    assert Certificate.from_json(json.dumps(data)).payload == data


def test_what_is_no_certificate_is_refused_by_name():
    other = payload_of() | {"format": "pabi.guarantee"}
    none = [("json", x) for x in ([], "pabi.certificate", None)]
    none += [("format", x) for x in ({}, other, payload_of() | {"format": None})]
    none += [("version", payload_of(x)) for x in (0, max(VERSIONS) + 1, "2", 2.0, True)]
    for field, data in (*none, ("version", {"format": FORMAT})):
        refused(field, check_format, data, FORMAT, VERSIONS)
        refused(field, Certificate.from_json, json.dumps(data))


def test_json_is_read_strictly():
    text = json.dumps(payload_of())
    doubled = text.replace('"theorem"', '"adjacency": "replace_one", "theorem"', 1)
    with pytest.raises(InvalidInput, match="^json: the key 'adjacency' comes twice"):
        Certificate.from_json(doubled)


@given(sentences, sentences)
def test_assumptions_are_added_once_and_none_is_lost(known, more):
    """In the order in which they came."""
    proof = Certificate(payload_of(assumes=known))
    found = proof.assuming(more)
    wanted = [s for i, s in enumerate(known + more) if s not in (known + more)[:i]]
    if set(more) <= set(known):
        assert found is proof
    else:
        assert found.payload["assumes"] == wanted
        assert found.payload | {"assumes": known} == proof.payload


@every(("version", "more"), list(itertools.product(VERSIONS, [[], ["a"]])))
def test_a_file_that_assumes_more_has_the_version_that_knows_such_files(version, more):
    """A reader of version 1 would not see them."""
    stated = payload_of(version)
    found = Certificate(stated).assuming(more)
    assert found.payload["version"] == (VERSION if more else version)
    assert found.payload.get("assumes", []) == more
    assert stated == payload_of(version)

"""What a file notes of a release, and that notes change nothing that is proven."""

import hashlib
import json
import pickle
import struct

import numpy as np

import pabi
from pabi.tradeoff import certificate as certificate
from pabi.tradeoff.certificate import digest, notes_of_all, released_notes, releases_in
from support.every_case import every

GIVEN = {"epochs": 2, "step_size": 0.5, "noise_std": 0.1}
RUN = pabi.NoisySGD(pabi.Loss.logistic(1.0, l2=0.01), 1000, pabi.Cyclic(100), **GIVEN)


def by_hand(*arrays):
    """The hash, from its definition: (name, shape, numbers in C order)."""
    text = b""
    for name, shape, numbers in arrays:
        text += f"{name} <f8 {shape}\n".encode() + struct.pack(f"<{len(numbers)}d", *numbers)
    return hashlib.sha256(text).hexdigest()


def test_the_hash_is_as_it_is_defined():
    table = np.array([[1.0, -2.5], [0.0, 1e300], [3.0, 4.0]])
    expected = by_hand(
        ("a", "3,2", [1.0, -2.5, 0.0, 1e300, 3.0, 4.0]), ("b", "", [7.0]), ("c", "0", [])
    )
    for same in (table, np.asfortranarray(table), table.astype(">f8"), table.tolist()):
        assert digest({"c": [], "b": 7, "a": same}) == expected


def test_another_array_has_another_hash():
    others = [[1.0, 2.0, 3.0], [[1.0, 2.0]], [1.0, np.nextafter(2.0, 3.0)], [2.0, 1.0], [1.0, -2.0]]
    for other in (*({"a": x} for x in others), {"b": [1.0, 2.0]}, {"a": [1.0], "b": [2.0]}):
        assert digest(other) != digest({"a": [1.0, 2.0]})


def test_notes_are_checked_by_nobody_and_prove_nothing():
    one = RUN.guarantee()
    noted = one.noting(released_notes({"x": [1.0]}))
    (release,) = noted.notes["releases"]
    assert release["pabi"] == pabi.__version__
    assert release["parameters_sha256"] == digest({"x": [1.0]})
    assert pabi.verify(noted).ok
    assert pabi.verify(noted.to_json()).ok
    data = json.loads(noted.to_json())
    del data["notes"]
    bare = json.loads(one.to_json())
    del bare["notes"]
    assert data == bare
    assert pickle.loads(pickle.dumps(noted)).notes["releases"] == [release]


def test_equal_descriptions_have_equal_files(monkeypatch):
    first = RUN.guarantee().to_json()
    monkeypatch.setattr(certificate, "today", lambda: "2999-01-01")
    assert RUN.guarantee().to_json() == first


def test_a_composition_notes_the_releases_of_all_its_parts():
    bare = RUN.guarantee()
    one, two = (bare.noting(released_notes({"x": [k]})) for k in (1.0, 2.0))
    flat = pabi.compose(one, bare, two)
    assert flat.notes["releases"] == [*one.notes["releases"], *two.notes["releases"]]
    assert pabi.compose(pabi.compose(one, bare), two).notes == flat.notes
    assert pabi.compose(bare, bare).notes == {}


@every("strange", [None, "x", 3, [1, "x"], {"a": 1}])
def test_strange_notes_are_no_releases(strange):
    assert releases_in({"releases": strange}) == []
    assert notes_of_all([{"releases": strange}, {}]) == {}
    noted = RUN.guarantee().noting({"releases": strange})
    assert "notes no release" in noted.report()

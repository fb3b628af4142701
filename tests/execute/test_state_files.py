"""Files of secret states: what they show, what they refuse; digests, which tell records apart by a key."""

import hashlib
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import pabi
from pabi.execute import state_files as state_files
from pabi.execute.state_files import locked, state_in, write_state
from pabi.execute.states import ForgottenRequest, digests_of, read_state, same_rows, written
from pabi.learn import PrivateLogisticRegression, StateFile
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused

X = np.random.default_rng(1).uniform(-0.4, 0.4, (120, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    file = StateFile(tmp_path_factory.mktemp("state") / "state", StateFile.new_key(), "a note")
    PrivateLogisticRegression(
        5.0, 1e-3, classes=[0, 1], cooldown_epochs=0, precondition=None, l2=0.1, epochs=4
    ).fit(X, Y, keep_state=file)
    return file


def changed(state, path, content):
    Path(path).write_bytes(content)
    return StateFile(path, state.key)


def test_nothing_but_the_format_is_legible(state):
    """Every array of the state, and every word of it, is looked for in the bytes of the file."""
    content, held = Path(state.path).read_bytes(), state_in(state)
    assert stat.S_IMODE(Path(state.path).stat().st_mode) == 0o600
    parts = [held.walk.x, held.shown, held.digests[3], held.walk.secret]
    assert all(part.tobytes() not in content for part in parts if part is not None)
    assert all(word not in content for word in (b"logistic", b"a note", b"order", b"PK\x03\x04"))
    assert content.startswith(b"pabi.state.1\n")
    assert repr(state) == f"StateFile({str(state.path)!r})"


def test_a_link_leaves_no_state_behind(state, tmp_path):
    """The link had been replaced by a file, and what was forgotten was still where it led to."""
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real.name)
    write_state(StateFile(link, state.key), state_in(state))
    before = real.read_bytes()
    write_state(StateFile(link, state.key), state_in(state))
    assert link.is_symlink()
    assert real.read_bytes() != before
    busy = pytest.raises(InvalidInput, match="another process")
    with locked(StateFile(link, state.key)), busy, locked(StateFile(real, state.key)):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"real", "link", ".real.lock"}


def test_a_state_of_two_names_is_refused(state, tmp_path):
    file = StateFile(tmp_path / "state", state.key)
    write_state(file, state_in(state))
    (tmp_path / "hard").hardlink_to(file.path)
    for name in ("state", "hard"):
        for use in (state_in, lambda one: write_state(one, state_in(state))):
            with pytest.raises(InvalidInput, match=r"^[^\n]*a file of one name, got one of 2"):
                use(StateFile(tmp_path / name, state.key))


def test_equal_states_are_written_in_other_bytes(state, tmp_path):
    """Fresh salt, from which key and nonce come."""
    files = [StateFile(tmp_path / name, state.key) for name in "ab"]
    for file in files:
        write_state(file, state_in(state))
    first, second = (Path(file.path).read_bytes()[13:] for file in files)
    same = np.frombuffer(first, np.uint8) == np.frombuffer(second, np.uint8)
    assert same.mean() < 0.05


def forgot(held, *requests):
    """The state with these rows forgotten."""
    proven = held.run.guarantee(1e-3)
    return replace(held, log=tuple(ForgottenRequest(rows, "now", 0, proven) for rows in requests))


def test_a_state_comes_back_as_it_was(state):
    held = forgot(state_in(state), (0, 119))
    again = read_state(written(held))
    for name in ("start", "shown", "digests"):
        assert np.array_equal(getattr(again, name), getattr(held, name))
    assert np.array_equal(again.walk.x, held.walk.x)
    assert again.run.guarantee(1e-3).epsilon(1e-3) == held.run.guarantee(1e-3).epsilon(1e-3)
    assert (again.digest_key, again.facts) == (held.digest_key, held.facts)
    assert [line.to_dict() for line in again.log] == [line.to_dict() for line in held.log]


ORDERS = [
    (pabi.BallsInBins(40, redraw="epoch"), np.arange(120) % 3),
    (pabi.Reshuffle(40, 30), np.arange(120)[::-1]),
    (pabi.ShuffleOnce(40, 1), np.arange(120)[::-1]),
]


@every("batches, secret", ORDERS)
def test_a_state_has_the_order_in_force(state, batches, secret):
    held = state_in(state)
    run = replace(held.run, batches=batches, total_steps=held.run.steps, epochs=None)
    held = replace(held, run=run, walk=replace(held.walk, secret=secret))
    again = read_state(written(held))
    assert again.run.batches == batches
    assert np.array_equal(again.walk.secret, secret)
    with pytest.raises(InvalidInput, match="^state: it is one that no run can be in"):
        read_state(written(replace(held, walk=replace(held.walk, secret=secret[1:]))))


def test_a_changed_byte_or_a_file_that_is_cut_off_is_noticed(state, tmp_path):
    whole = Path(state.path).read_bytes()
    others = [whole[:length] for length in (0, 5, 12, 13, 30, 45, 50, 500)]
    for at in (0, 5, 11, 14, 40, 60, 1000, len(whole) - 1):
        others.append(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    for content in others:
        with pytest.raises(InvalidInput, match=r"^[^\n]*$"):
            state_in(changed(state, tmp_path / "other", content))


def test_other_versions_and_files_are_named(state, tmp_path):
    content = Path(state.path).read_bytes()
    newer = changed(state, tmp_path / "newer", content.replace(b"state.1", b"state.2", 1))
    assert " is of another version" in refused("state", state_in, newer)
    with pytest.raises(InvalidInput, match="^state: .* is not a state of pabi"):
        state_in(changed(state, tmp_path / "else", b"model"))
    assert "cannot read " in refused("state", state_in, StateFile(tmp_path / "none", state.key))


def test_without_the_package_nothing_is_trained(monkeypatch):
    def missing(module, group):
        raise InvalidInput("cryptography", f"is not installed: {group}")

    monkeypatch.setattr(state_files, "extra", missing)
    assert "forget" in refused("cryptography", StateFile, "state", b"x" * 32)


@every(
    "change",
    [
        {"walk": {"step": 3}},
        {"walk": {"x": np.full((3, 1), np.nan)}},
        {"walk": {"secret": np.zeros(120, dtype=int)}},
        {"digest_key": b"short"},
        {"digests": np.zeros((3, 16), dtype=np.uint8)},
    ],
)
def test_states_that_no_run_can_be_in_are_refused(state, change):
    held = state_in(state)
    changes = {k: replace(held.walk, **v) if k == "walk" else v for k, v in change.items()}
    with pytest.raises(InvalidInput, match="^state: it is one that no run can be in"):
        read_state(written(replace(held, **changes)))


@every("requests", [[(0, 120)], [(-1,)], [(3,), (3,)]])
def test_rows_are_forgotten_once_and_of_the_table(state, requests):
    with pytest.raises(InvalidInput, match="^state: it is one that no run can be in"):
        read_state(written(forgot(state_in(state), *requests)))


def test_what_is_no_state_or_no_key_is_refused():
    for content in (b"", b"PK\x03\x04", b"x" * 100):
        refused("state", read_state, content)
    for key in (b"short", "x" * 32, b"x" * 33, None):
        assert "expected 32 bytes" in refused("key", StateFile, "state", key)


RNG = np.random.default_rng(3)
ROWS = np.where(RNG.random((5000, 4)) < 0.4, 0.0, RNG.standard_normal((5000, 4)))
TARGETS, KEY = RNG.integers(3, size=5000), bytes(range(32))


def test_a_digest_is_blake2b_of_the_row_and_what_belongs_to_it():
    weights = RNG.random(5000)
    digests = digests_of(ROWS, TARGETS, weights, KEY)
    for row in (0, 4095, 4096, 4999):
        text = np.array([*ROWS[row], TARGETS[row], weights[row]], dtype="<f8").tobytes()
        digest = hashlib.blake2b(text, digest_size=16, key=KEY).digest()
        assert digests[row].tobytes() == digest


@every("form", [csr_matrix, np.asfortranarray, lambda x: x[::1] * 1.0])
def test_the_form_of_a_table_does_not_matter(form):
    assert np.array_equal(
        digests_of(form(ROWS), TARGETS, None, KEY), digests_of(ROWS, TARGETS, None, KEY)
    )
    assert np.array_equal(
        digests_of(-ROWS * -1.0 * -1.0 * -1.0, TARGETS, None, KEY),
        digests_of(ROWS, TARGETS, None, KEY),
    )


@every("place", ["row", "target", "weight", "key"])
def test_every_part_matters(place):
    parts = {"row": ROWS.copy(), "target": TARGETS.copy(), "weight": np.ones(5000), "key": KEY}
    before = digests_of(*parts.values())
    if place == "key":
        parts["key"] = bytes(32)
    else:
        one = (77, 2) if place == "row" else 77
        parts[place][one] = np.nextafter(parts[place][one], 9.0) if place == "row" else 9
    after = digests_of(*parts.values())
    differing = np.flatnonzero(np.any(before != after, axis=1))
    assert differing.tolist() == (list(range(5000)) if place == "key" else [77])
    assert not same_rows(before, after, np.array([], dtype=np.intp))
    assert same_rows(before, after, np.array([77])) is (place != "key")

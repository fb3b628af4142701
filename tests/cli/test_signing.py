"""`pabi sign` and what others read of it: nothing that is altered, exchanged or cut short counts.

Truth is RFC 8032 (7.1, TEST 2); in `tests/show/test_page_checks.py` a browser verifies the same signatures.
"""

import functools
import json
import os
import re
import stat

import pytest

import pabi
from pabi.show import attesting as signatures
from support import run_files
from support.every_case import every
from support.run_files import toml
from support.tables import assert_one_line
from support.tables import run as call

from .test_verify import DELTA, RUN

crypto = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")

ADA = ("--name", "Ada Lovelace", "--role", "engineer", "--attest", "all")


@functools.cache
def text():
    return RUN.guarantee(DELTA).to_json()


@functools.cache
def key(number=1):
    return crypto.Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


@pytest.fixture
def file(tmp_path):
    """A guarantee, and a key beside it."""
    path = tmp_path / "g.json"
    path.write_text(text(), encoding="utf-8")
    assert call("sign", "--new-key", str(tmp_path / "ada.key")).status == 0
    return path


def sign(path, *options):
    return call("sign", str(path), *options)


def signer(path):
    return call("verify", str(path), "--signer", str(path.parent / "ada.key.pub"))


# What is said of a file that was signed.


def test_what_was_signed_is_verified_and_reported(file):
    status, out, _ = sign(file, *ADA, "--key", str(file.parent / "ada.key"))
    public = (file.parent / "ada.key.pub").read_text().strip()
    sentences = [s for s in RUN.guarantee(DELTA).assumptions if "(replace_one)" not in s]
    assert status == 0
    assert f"attests      {len(sentences)} sentences, as engineer" in out
    assert f"signed with the key {public}" in out
    status, out, _ = signer(file)
    assert status == 0
    assert out.splitlines()[1].startswith("signer       this key, on ")
    assert "under the name Ada Lovelace" in out
    assert call("verify", str(file), "--signer", public).out == out
    said = json.loads(call("verify", str(file), "--signer", public, "--json").out)
    assert sorted(said["signed"][0]["sentences"]) == sorted(sentences)
    report = call("report", str(file)).out
    ticks = re.findall(r"^- \[(.)\] (\d+): ", report, flags=re.M)
    officer, engineer = ticks[:5], ticks[5:]
    assert [number for _, number in officer + engineer[:1]] == ["1", "2", "3", "4", "5", "1"]
    assert {box for box, _ in officer} == {" "}
    assert {box for box, _ in engineer} == {"x"}
    hand = f"signed with the key {public[:8]}…, under the name Ada Lovelace, 2"
    assert report.count(hand) == len(engineer)


def test_officers_tick_some_sentences_and_a_typed_name_is_not_signed(file):
    options = ("--name", "Grace Hopper", "--role", "officer", "--attest", "2", "--attest", "1")
    status, out, _ = sign(file, *options)
    assert status == 0
    assert "standing     typed, not signed: anybody can have written this" in out
    report = call("report", str(file)).out
    ticks = re.findall(r"^- \[(.)\] (\d+): ", report, flags=re.M)
    assert ticks[:3] == [("x", "1"), ("x", "2"), (" ", "3")]
    assert report.count("typed, not signed, under the name Grace Hopper, 2") == 2
    assert {box for box, _ in ticks[5:]} == {" "}  # an officer attests nothing of an engineer's
    assert signer(file).status == 1
    # Another δ is another ε, on which nobody decided.
    other = call("report", str(file), "--delta", "1e-7").out
    assert re.findall(r"^- \[(.)\] (\d+): ", other, flags=re.M)[:2] == [(" ", "1"), ("x", "2")]
    assert "  - Grace Hopper, officer: ε = " in other.split("not a sentence of this report")[1]
    assert "not a sentence of this report" not in report


def test_who_has_another_role_ticks_nothing(file):
    """Whatever stands in a statement that `pabi sign` did not write."""
    raw, every = text().encode(), RUN.guarantee(DELTA).assumptions
    one = signatures.sign(signatures.stated(raw, "Ada", "publisher", every), key())
    with open(f"{file}.sig", "w", encoding="utf-8") as stream:
        stream.write(signatures.signatures_text([one]))
    report = call("report", str(file)).out
    assert "[x]" not in report
    assert f"Ada, publisher: {every[0]}" in report.replace("\\", "")


def test_statements_are_added_and_all_of_them_count(file):
    for name in ("Ada", "Bo"):
        assert sign(file, "--name", name, "--key", str(file.parent / "ada.key")).status == 0
    status, out, _ = signer(file)
    assert status == 0
    assert [name in out for name in ("Ada", "Bo", "Cy")] == [True, True, False]
    assert "attests 0 sentences" in out


def test_a_changed_file_is_noticed_by_all_who_read_it(file):
    """Its certificate still proves what it claims: a sentence that only its word adds was taken out."""
    data = json.loads(RUN.guarantee(DELTA).assuming("only this file's word").to_json())
    file.write_text(json.dumps(data), encoding="utf-8")
    assert sign(file, *ADA, "--key", str(file.parent / "ada.key")).status == 0
    data["assumptions"].remove("only this file's word")
    data["certificate"]["assumes"] = []
    file.write_text(json.dumps(data), encoding="utf-8")
    assert call("verify", str(file)).status == 0
    status, out, _ = signer(file)
    assert status == 1
    assert "signer       NOT this key" in out
    report = call("report", str(file)).out
    alarm = "Do not rely on this. A statement under the name"
    assert report.index(alarm) < report.index("| Protects")
    assert "[x]" not in report
    assert_one_line(sign(file, "--name", "Ada"), "about another file")
    said = call("verify", str(file), "--signer", "0" * 64, "--json")
    assert (said.status, json.loads(said.out)["signed"]) == (1, [])


def test_what_is_refused_is_not_signed(file):
    data = json.loads(text())
    data["certificate"]["run"]["noise_std"] = 0.05
    file.write_text(json.dumps(data), encoding="utf-8")
    status, out, err = sign(file, "--name", "Ada")
    assert (status, err) == (1, "")
    assert out.startswith("verdict      refused, and not signed: ")
    assert not os.path.exists(f"{file}.sig")
    file.write_text(RUN.guarantee(DELTA).for_testing().to_json(), encoding="utf-8")
    assert sign(file, "--name", "Ada").status == 1


def test_certificates_and_files_of_other_encodings_are_signed_as_they_are(file):
    for raw in (
        RUN.guarantee(DELTA).certificate.to_json().encode(),
        b"\xef\xbb\xbf" + text().encode(),
    ):
        file.write_bytes(raw)
        assert sign(file, *ADA, "--key", str(file.parent / "ada.key")).status == 0
        assert f"SHA-256 {signatures.digest(raw)}" in call("report", str(file)).out
        assert signer(file).status == 0
        os.remove(f"{file}.sig")


# Forgeries of a file, each of which is another file.


def renamed(data, **values):
    return json.dumps({**data, **values}).encode()


def forged():
    raw, data = text().encode(), json.loads(text())
    yield "a bit", bytes([*raw[:99], raw[99] ^ 1, *raw[100:]])
    yield "truncated", raw[:-1]
    yield "longer", raw + b"\n"
    yield "a mark", b"\xef\xbb\xbf" + raw
    yield "spaces", json.dumps(data, indent=1).encode()
    yield "order", json.dumps(dict(reversed(data.items()))).encode()
    yield "twice", raw.replace(b"{", b'{"mu": 0.1, ', 1)
    yield "1 and 1.0", renamed(data, version=float(data["version"]))
    yield "-0", renamed(data, delta=-0.0)
    yield "escapes", json.dumps(data, ensure_ascii=True).replace("a", "\\u0061", 1).encode()
    yield "composed", raw.replace("é".encode(), "e\u0301".encode()) + b" "
    yield "sentence", renamed(data, assumptions=data["assumptions"][1:])
    yield "empty", b""


@every("forgery", [name for name, _ in forged()])
def test_a_signature_fits_the_bytes_that_were_signed_and_no_others(forgery):
    raw = text().encode()
    statement = signatures.stated(raw, "Ada", "publisher", ())
    held = signatures.signatures_text([signatures.sign(statement, key())])
    (good,) = signatures.read_signatures(held, raw)
    assert good.trouble is None
    other = dict(forged())[forgery]
    assert other != raw
    (bad,) = signatures.read_signatures(held, other)
    assert bad.trouble == "it is about another file, or the file was changed"


# Forgeries of the statements.


def signed(name="Ada", number=1, role="engineer", sentences=("one", "two")):
    return signatures.sign(signatures.stated(b"file", name, role, sentences), key(number))


def test_no_character_of_the_file_of_statements_changes_what_counts():
    """Every character is replaced, dropped and doubled: what still counts says what was signed."""
    (one, other), typed = (
        (signed(), signed("Bo", 2)),
        signatures.stated(b"file", "Cy", "officer", ()),
    )
    held = signatures.signatures_text([one, other])
    honest = {(s.statement.text, s.key) for s in (one, other)}
    accepted = 0
    for place in range(len(held)):
        character = held[place]
        for new in ("", character * 2, "0" if character != "0" else "1", " "):
            changed = held[:place] + new + held[place + 1 :]
            try:
                read = signatures.read_signatures(changed, b"file")
            except pabi.InvalidInput:
                continue
            valid = {(s.statement.text, s.key) for s in read if s.trouble is None and s.key}
            assert valid <= honest, (place, new)
            accepted += bool(valid)
    assert accepted > 0  # such as one whose other statement was altered
    assert typed.text not in {text for text, _ in honest}


@every(
    "change",
    [
        {"key": signed(number=2).key},
        {"signature": signed("Bo").signature},
        {"signature": signed(number=2).signature},
        {"signature": key().sign(b"file").hex()},
        {"signature": key().sign(signatures.digest(b"file").encode()).hex()},
        {"signature": "0" * 128},
        {"statement": signed("Bo").statement.text},
        {"statement": signed(role="officer").statement.text},
        {"statement": signed(sentences=("one",)).statement.text},
        {"statement": signed(sentences=("one", "two", "three")).statement.text},
    ],
)
def test_exchanged_parts_do_not_count(change):
    table = json.loads(signatures.signatures_text([signed()]))
    table["statements"][0] |= change
    (read,) = signatures.read_signatures(json.dumps(table), b"file")
    assert read.trouble == "the signature is not one of this statement by this key"


def test_a_signature_under_another_kind_of_text_is_no_statement():
    for message in ("", "file sha256 0", "{}", text(), signed().statement.text + "x"):
        row = {
            "statement": message,
            "key": signatures.public_of(key()),
            "signature": key().sign(message.encode()).hex(),
        }
        table = {"format": "pabi.signatures", "version": 1, "statements": [row]}
        with pytest.raises(pabi.InvalidInput, match="^statement: expected"):
            signatures.read_signatures(json.dumps(table), b"file")


@every(
    "name",
    ["Ada\nrole officer", "A\u2028da", "\u202eadA", "", "  ", "a" * 201, "\ud800", "Ada\x1b[31m"],
)
def test_names_in_one_line_of_visible_letters(name):
    with pytest.raises(pabi.InvalidInput, match="^--name: "):
        signatures.stated(b"file", name, "engineer", ())
    text = signed().statement.text.replace("Ada", name)
    if len(name.strip()) <= 200 and name.strip():
        with pytest.raises(pabi.InvalidInput, match="^sentence: "):
            signatures.stated(b"file", "Ada", "engineer", (name,))
        with pytest.raises(pabi.InvalidInput, match="^statement: "):
            signatures.read_statement(text)


def test_files_of_statements_that_are_none(file):
    where = f"{file}.sig"
    good = signatures.signatures_text([signed()])
    table = json.loads(good)
    for bad in (
        "",
        "[]",
        "{}",
        good[:-3],
        good.replace('"version": 1', '"version": 2'),
        good.replace('"version": 1', '"version": 1, "version": 1'),
        json.dumps({**table, "more": 1}),
        json.dumps({**table, "statements": {}}),
        json.dumps({**table, "statements": [[]]}),
        json.dumps({**table, "statements": table["statements"] * 65}),
        json.dumps({**table, "statements": [{"statement": "x", "key": "y"}]}),
        text(),
    ):
        with open(where, "w", encoding="utf-8") as stream:
            stream.write(bad)
        for command in (("report",), ("verify", "--signer", "0" * 64), ("sign", "--name", "Ada")):
            assert_one_line(call(command[0], str(file), *command[1:]), "g.json.sig: ")
    with open(where, "w", encoding="utf-8") as stream:
        stream.write(good)
    assert_one_line(call("verify", where), "statements about a file")


# Keys.


def test_keys_are_those_of_rfc_8032():
    seed = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
    private = crypto.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    public = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert signatures.public_of(private) == public
    signature = (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert signatures._verified(bytes.fromhex(public), bytes.fromhex(signature), b"\x72")
    assert not signatures._verified(bytes.fromhex(public), bytes.fromhex(signature), b"\x73")


def test_a_new_key_is_the_owners_alone_and_overwrites_nothing(tmp_path):
    path = tmp_path / "ada.key"
    before = os.umask(0)
    try:
        assert call("sign", "--new-key", str(path)).status == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    private = signatures.read_private(path.read_bytes(), "ada.key")
    assert signatures.public_of(private) == (tmp_path / "ada.key.pub").read_text().strip()
    held = path.read_bytes()
    assert_one_line(call("sign", "--new-key", str(path)), "exists already")
    (tmp_path / "ada.key.pub").unlink()
    assert_one_line(call("sign", "--new-key", str(path)), "exists already")
    (tmp_path / "bo.key.pub").write_text("mine")
    assert_one_line(call("sign", "--new-key", str(tmp_path / "bo.key")), "exists already")
    assert not (tmp_path / "bo.key").exists()
    assert path.read_bytes() == held
    assert_one_line(call("sign", "--new-key", str(tmp_path / "no" / "k")), "cannot be written")
    assert_one_line(call("sign", "g.json", "--new-key", str(path)), "--new-key")


def test_other_keys_and_no_keys(file):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import x25519

    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = serialization.BestAvailableEncryption(b"secret")
    plain = serialization.NoEncryption()
    path = file.parent / "other.key"
    for raw in (
        b"",
        b"junk",
        (file.parent / "ada.key.pub").read_bytes(),
        x25519.X25519PrivateKey.generate().private_bytes(pem, pkcs8, plain),
        key().private_bytes(pem, pkcs8, locked),
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ):
        path.write_bytes(raw)
        assert_one_line(sign(file, "--name", "Ada", "--key", str(path)), "private Ed25519 key")
    assert not os.path.exists(f"{file}.sig")
    for public in ("", "0" * 63, "0" * 65, "g" * 64, str(file.parent / "ada.key"), "nowhere"):
        said = call("verify", str(file), "--signer", public)
        assert_one_line(said, "--signer: expected a public key")


def test_digits_are_a_key_whatever_lies_under_their_name(file, monkeypatch):
    """A folder that came from a stranger may have such a file, with another key."""
    assert sign(file, *ADA, "--key", str(file.parent / "ada.key")).status == 0
    other = signatures.public_of(key())
    (file.parent / other).write_text((file.parent / "ada.key.pub").read_text())
    monkeypatch.chdir(file.parent)
    assert call("verify", str(file), "--signer", other).status == 1


def test_everything_else_in_one_line(file):
    for options, words in (
        ((), "--name"),
        (("--name", "Ada", "--role", "king"), "--role"),
        (("--name", "Ada", "--attest", "all"), "a publisher attests no sentence"),
        (("--name", "Ada", "--role", "officer", "--attest", "6"), "from 1 to 5"),
        (("--name", "Ada", "--role", "officer", "--attest", "0"), "from 1 to 5"),
        (("--name", "Ada", "--role", "officer", "--attest", "x"), "--attest"),
        (("--name", "Ada", "--key", "nowhere"), "nowhere"),
    ):
        assert_one_line(sign(file, *options), words)
    assert_one_line(call("sign", "--name", "Ada"), "FILE")
    assert_one_line(call("sign", "-", "--name", "Ada", stdin=text()), "expected a file")
    assert_one_line(call("verify", "-", "--signer", "0" * 64, stdin=text()), "expected a file")
    run = file.parent / "run.toml"
    run.write_text(toml(run_files.RUN), encoding="utf-8")
    assert_one_line(sign(run, "--name", "Ada"), "run file")


def test_without_the_package_nothing_counts_as_signed(file, monkeypatch):
    import sys

    assert sign(file, *ADA, "--key", str(file.parent / "ada.key")).status == 0
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    for said in (signer(file), call("report", str(file))):
        assert_one_line(
            said, "cryptography: is not installed; in a checkout of pabi: pip install '.[sign]'"
        )


def test_a_report_about_groups_is_of_another_guarantee(file):
    assert sign(file, *ADA, "--key", str(file.parent / "ada.key")).status == 0
    report = call("report", str(file), "--groups", "2").out
    assert "[x]" not in report
    assert "Nobody has signed" in report

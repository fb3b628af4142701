"""Damage of every kind: what a crash left is taken off, what was changed is refused."""

import errno
import os
import re
import shutil
import warnings

import pytest

import pabi
from pabi.budget import files
from pabi.budget.filters import START, sealed
from pabi.numbers import locking
from pabi.numbers.errors import InvalidInput, PrivacyWarning
from support.every_case import every
from support.ledgers import DELTA, release

EPSILON, MU = 1.0, 0.05


@pytest.fixture(autouse=True)
def _hurried(monkeypatch):
    """Readers look again at once."""
    monkeypatch.setattr(files, "_PAUSE", 0.0)


@pytest.fixture
def ledger(tmp_path):
    """Three entries: reserved, spent, and the first one committed."""
    one = pabi.Ledger(tmp_path / "a.ledger", EPSILON, DELTA)
    reservation = one.reserve(release(MU))
    one.spend(release(MU))
    reservation.commit()
    return one


def opened(path):
    """The ledger, with nothing to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return pabi.Ledger(path, EPSILON, DELTA)


def refused(path, *words):
    """Opening and reading say so in one line that names the file, and change nothing."""
    before = path.read_bytes()
    for read in (lambda: pabi.Ledger(path, EPSILON, DELTA), lambda: files.read_book(path)):
        with pytest.raises(InvalidInput) as caught:
            read()
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
        for word in words:
            assert word in str(caught.value)
    assert path.read_bytes() == before


def set_back(path, lines, left=b""):
    """The ledger as it was when these were its lines, and what was left behind them."""
    files.lock_beside(path).unlink()
    path.write_bytes(lines)
    if lines:
        opened(path)
    path.write_bytes(lines + left)


# What a crash leaves.


@pytest.mark.parametrize("entries", [0, 1, 2, 3])
def test_a_line_that_was_cut_anywhere_was_never_granted(ledger, entries):
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    whole, last = b"".join(lines[:entries]), lines[entries]
    granted = sum(b'"charge"' in line for line in lines[1:entries])
    for cut in {1, 2, len(last) // 2, *range(5, len(last) - 1, 211), len(last) - 2}:
        set_back(ledger.path, whole, last[:cut])
        if entries:  # a reader takes no notice of it, and takes nothing off
            assert len(files.read_book(ledger.path).granted) == granted
            assert ledger.path.stat().st_size == len(whole) + cut
        with pytest.warns(PrivacyWarning, match="never granted"):
            again = pabi.Ledger(ledger.path, EPSILON, DELTA)
        again.spend(release(MU))
        assert len(opened(ledger.path).report().entries) == granted + 1


@pytest.mark.parametrize("entries", [1, 2, 3, 4])
def test_a_line_that_lacks_its_end_alone_counts(ledger, entries):
    """Editors take the end of the last line off, and nothing that was granted may be lost."""
    lines = ledger.path.read_bytes().splitlines(keepends=True)[:entries]
    granted = sum(b'"charge"' in line for line in lines)
    set_back(ledger.path, b"".join(lines))
    ledger.path.write_bytes(b"".join(lines)[:-1])
    assert len(files.read_book(ledger.path).granted) == granted
    assert len(opened(ledger.path).report().entries) == granted
    assert ledger.path.read_bytes() == b"".join(lines)
    opened(ledger.path).spend(release(MU))
    assert len(opened(ledger.path).report().entries) == granted + 1


def test_the_notice_says_how_much_was_taken_off_and_nothing_else(ledger):
    with ledger.path.open("ab") as file:
        file.write(b'{"entry":"spent","numb')
    with pytest.warns(PrivacyWarning, match=r"ended in 22 bytes of an entry") as notices:
        pabi.Ledger(ledger.path, EPSILON, DELTA)
    assert len(notices) == 1
    assert notices[0].filename == __file__
    assert len(opened(ledger.path).report().entries) == 2


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_blocks_that_were_never_written_are_a_line_that_was_never_granted(ledger, end):
    """After a loss of power a file may be as long as it should be, and hold zeros."""
    whole = ledger.path.read_bytes()
    last, hole = whole.splitlines(keepends=True)[2], b"\0" * 100
    for garbage in (hole * 7 + end, hole + last[100:-1] + end, last[:99] + hole[:9] + end):
        set_back(ledger.path, whole, garbage)
        assert len(files.read_book(ledger.path).granted) == 2
        with pytest.warns(PrivacyWarning, match="never granted"):
            pabi.Ledger(ledger.path, EPSILON, DELTA).spend(release(MU))
        assert len(opened(ledger.path).report().entries) == 3


# What was granted never goes away.


def flips(line, every):
    """(place, bit) of all bits of the first and last bytes of a line, and of some between."""
    near = [*range(90), *range(len(line) - 90, len(line))]
    return [(place, bit) for place in {*near, *range(90, len(line), every)} for bit in range(8)]


@pytest.mark.parametrize("committed", [False, True])
def test_a_bit_that_flips_takes_no_entry_away(tmp_path, committed):
    ledger, noticed = pabi.Ledger(tmp_path / "a.ledger", EPSILON, DELTA), 0
    if committed:
        ledger.reserve(release(MU)).commit()
    else:
        ledger.spend(release(MU))
    whole = ledger.path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for place, bit in flips(last, 331):
        at = len(whole) - len(last) + place
        ledger.path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        try:
            (entry,) = pabi.Ledger(ledger.path, EPSILON, DELTA).report().entries
        except InvalidInput:
            noticed += 1
        else:
            assert entry.committed
    assert noticed > 1000
    ledger.path.write_bytes(whole)
    assert len(opened(ledger.path).report().entries) == 1


def test_a_bit_that_flips_in_what_keeps_the_length_takes_no_entry_away(ledger):
    lock = files.lock_beside(ledger.path)
    mark = lock.read_bytes()
    for place in range(len(mark)):
        for bit in range(8):
            lock.write_bytes(mark[:place] + bytes([mark[place] ^ 1 << bit]) + mark[place + 1 :])
            try:
                entries = len(files.read_book(ledger.path).granted)
            except InvalidInput:
                continue
            assert entries == 2
    lock.write_bytes(mark)
    assert len(opened(ledger.path).report().entries) == 2


@pytest.mark.parametrize("entries", [0, 1, 2, 3])
def test_a_ledger_that_is_shorter_than_it_was_is_refused(ledger, entries):
    """An older copy that was put back, or lines that an editor lost."""
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    for left in (b"", lines[entries][:-2], lines[entries][:50]):
        ledger.path.write_bytes(b"".join(lines[:entries]) + left)
        with pytest.raises(InvalidInput, match="is missing or was changed"):
            pabi.Ledger(ledger.path, EPSILON, DELTA)


def test_an_emptied_lock_file_takes_no_entry_away(ledger):
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    files.lock_beside(ledger.path).write_bytes(b"")
    for some in (4, 3, 2):
        ledger.path.write_bytes(b"".join(lines[:some]))
        refused(ledger.path, "is missing or was changed")
    ledger.path.write_bytes(lines[0])  # as a new ledger is before its length is noted
    assert opened(ledger.path).report().entries == ()


def test_another_ledger_of_the_same_length_is_refused(ledger, tmp_path):
    other = pabi.Ledger(tmp_path / "b.ledger", EPSILON, DELTA)
    reservation = other.reserve(release(MU))
    other.spend(release(MU))
    reservation.commit()
    assert other.path.stat().st_size == ledger.path.stat().st_size
    shutil.copy(other.path, ledger.path)
    refused(ledger.path, "is missing or was changed")
    with pytest.raises(InvalidInput, match="does not continue"):
        ledger.spend(release(MU))


def test_a_copy_without_its_lock_file_counts_if_it_is_whole(ledger, tmp_path):
    copy = tmp_path / "copy.ledger"
    shutil.copy(ledger.path, copy)
    assert len(files.read_book(copy).granted) == 2
    assert len(opened(copy).report().entries) == 2
    files.lock_beside(copy).unlink()
    copy.write_bytes(ledger.path.read_bytes() + b'{"entry":"spent","numb')
    refused(copy, "22 bytes that are no whole entry")


# Those who may write take turns, and nobody waits for ever.


def test_who_may_only_read_a_ledger_stops_nobody_and_without_locks_all_only_read(
    ledger, monkeypatch
):
    reader = os.open(ledger.path, os.O_RDONLY)
    fcntl = pytest.importorskip("fcntl")
    fcntl.flock(reader, fcntl.LOCK_EX)
    ledger.spend(release(MU))
    os.close(reader)
    for mode, own in ((0o644, 0o600), (0o664, 0o660), (0o600, 0o600)):
        ledger.path.chmod(mode)
        ledger.spend(release(MU))
        assert files.lock_beside(ledger.path).stat().st_mode & 0o777 == own
    monkeypatch.setattr(locking, "fcntl", None)
    assert ledger.remaining() > 0.5
    with pytest.raises(InvalidInput, match="expected a system with flock"):
        ledger.spend(release(MU))


def test_a_wait_has_an_end_and_nothing_is_charged(ledger, monkeypatch):
    monkeypatch.setattr(locking, "PATIENCE", 0.1)
    with files.writing(ledger.path, create=False):
        with pytest.raises(InvalidInput, match=r"a\.ledger\.lock: another process has held this"):
            ledger.spend(release(MU))
        assert len(ledger.report().entries) == 2  # readers need no lock


# What was changed.


CHANGES = {
    "one taken out": lambda a, b, c, d: a + c + d,
    "the first taken out": lambda a, b, c, d: b + c + d,
    "two in another order": lambda a, b, c, d: a + c + b + d,
    "one twice": lambda a, b, c, d: a + b + b + c + d,
    "the last twice": lambda a, b, c, d: a + b + c + d + d,
    "an empty line": lambda a, b, c, d: a + b + b"\n" + c + d,
    "zeros within": lambda a, b, c, d: a + b"\0" * 40 + b"\n" + b + c + d,
    "another language": lambda a, b, c, d: a + b"entry: spent\n",
    "windows": lambda a, b, c, d: (a + b + c + d).replace(b"\n", b"\r\n"),
    "another letter": lambda a, b, c, d: a + b[:90] + bytes([b[90] ^ 1]) + b[91:] + c + d,
}


@every("name", CHANGES)
def test_lines_that_do_not_follow_are_refused(ledger, name):
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(CHANGES[name](*whole.splitlines(keepends=True)))
    refused(ledger.path)
    ledger.path.write_bytes(whole)


def altered(line, before, **changes):
    """A line with other content and a hash that is right."""
    body = pabi.numbers.encoding.parse_json(line.decode())
    body.pop("hash")
    return sealed({k: v for k, v in (body | changes).items() if v is not ...}, before)


@every(
    ("place", "changes", "word"),
    [
        (0, {"version": 2}, "version 2"),
        (0, {"format": "pabi.guarantee"}, "got another file"),
        (0, {"filter": {"kind": "gaussian", "mu": 5.0}}, "keeps epsilon and delta"),
        (0, {"filter": {"kind": "laplace"}}, "laplace"),
        (0, {"epsilon": -1.0}, "epsilon"),
        (0, {"more": 1}, "more: unknown key"),
        (0, {"opened": ...}, "opened: missing"),
        (1, {"entry": "given back"}, "entry"),
        (1, {"number": 7}, "number: expected 1"),
        (1, {"charge": -0.05}, "charge"),
        (1, {"charge": "0.05"}, "charge"),
        (1, {"testing": None}, "testing"),
        (1, {"guarantee": None}, "guarantee"),
        (1, {"entry": "committed"}, "unknown key"),
    ],
)
def test_a_line_that_means_something_else_is_refused(ledger, place, changes, word):
    """The first one, and an entry."""
    whole = ledger.path.read_bytes()
    first, second = whole.splitlines(keepends=True)[:2]
    head, line, before = ((b"", first, START), (first, second, files.seal_of(first)))[place]
    ledger.path.write_bytes(head + altered(line, before, **changes))
    refused(ledger.path, word)
    ledger.path.write_bytes(whole)


def test_commits_of_nothing_and_joined_lines_are_refused(ledger):
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    for number in (3, 1):
        extra = altered(lines[3], files.seal_of(lines[3]), number=number)
        ledger.path.write_bytes(b"".join(lines) + extra)
        refused(ledger.path, f"nothing is to be committed as {number}")
    for end in (b"", b"\r"):
        ledger.path.write_bytes(ledger.path.read_bytes().replace(b"\n", end))
        refused(ledger.path)


# Files that are something else, or gone.


@every("content", [b"name,age\nanna,7\n", b"name,age", b"{}\n", b"\xff\xfe\n", b"x"])
def test_other_files_are_left_alone(tmp_path, content):
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="expected a ledger"):
        pabi.Ledger(path, EPSILON, DELTA)
    assert path.read_bytes() == content


def test_an_empty_file_is_a_new_ledger_and_a_folder_and_a_missing_folder_are_refused(tmp_path):
    (tmp_path / "a.ledger").touch()
    assert opened(tmp_path / "a.ledger").report().entries == ()
    for path in (tmp_path, tmp_path / "no" / "a.ledger"):
        with pytest.raises(InvalidInput, match=re.escape(f"{path}: expected a ")):
            pabi.Ledger(path, EPSILON, DELTA)


def test_a_link_is_the_ledger_that_it_leads_to(ledger, tmp_path):
    """One lock and one mark, whatever the name: two of them had granted more than there are entries."""
    link, new = tmp_path / "link", tmp_path / "new"
    link.symlink_to(ledger.path.name)
    new.symlink_to("b.ledger")
    other = opened(link)
    other.spend(release(MU))
    ledger.spend(release(MU))
    assert (other.path, len(ledger.report().entries)) == (ledger.path, 4)
    with files.writing(link, create=False) as held:
        assert os.path.samestat(os.fstat(held.lock), files.lock_beside(ledger.path).stat())
    assert opened(new).path == tmp_path / "b.ledger"
    assert not list(tmp_path.glob(".link*")) + list(tmp_path.glob(".new*"))
    ledger.path.write_bytes(b"".join(ledger.path.read_bytes().splitlines(keepends=True)[:3]))
    for read in (lambda: files.read_book(link), lambda: pabi.Ledger(link)):
        with pytest.raises(InvalidInput, match=rf"^{ledger.path}: .*an entry that was granted"):
            read()


def test_a_ledger_of_two_names_is_refused(ledger, tmp_path):
    link = tmp_path / "hard"
    link.hardlink_to(ledger.path)
    refused(link, "expected a file of one name, got one of 2")
    refused(ledger.path, "expected a file of one name, got one of 2")
    with pytest.raises(InvalidInput, match="a file of one name"):
        ledger.spend(release(MU))
    link.unlink()
    ledger.spend(release(MU))


def test_a_file_that_lost_entries_or_is_gone_is_noticed(ledger):
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join(lines[:2]))
    for call in (lambda: ledger.spend(release(MU)), ledger.remaining):
        with pytest.raises(InvalidInput, match="does not continue what was read of it before"):
            call()
    ledger.path.unlink()
    calls = (lambda: ledger.spend(release(MU)), ledger.remaining, ledger.report)
    for call in (*calls, lambda: ledger.guarantee):
        with pytest.raises(InvalidInput, match="No such file"):
            call()
    assert not ledger.path.exists()


# Disks that are full, and systems without locks.


def test_nothing_is_granted_before_it_is_on_the_disk(ledger, monkeypatch):
    def broken(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files.os, "fsync", broken)
    with pytest.raises(InvalidInput, match="cannot be written: Input/output error"):
        ledger.reserve(release(MU))
    monkeypatch.undo()
    assert len(opened(ledger.path).report().entries) == 2


def test_what_is_written_is_there_when_it_is_synced(ledger, monkeypatch):
    sizes, sync = [], os.fsync

    def noting(file):
        sizes.append(ledger.path.stat().st_size)
        sync(file)

    monkeypatch.setattr(files.os, "fsync", noting)
    before = ledger.path.stat().st_size
    reservation = ledger.reserve(release(MU))
    assert sizes == [ledger.path.stat().st_size] * 2  # the entry, and its mark
    assert sizes[0] > before
    reservation.commit()
    assert sizes[2:] == [ledger.path.stat().st_size] * 2

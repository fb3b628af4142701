"""Random sequences of what may happen to a ledger, against a list of what it granted."""

import copy
import os
import pickle
import shutil
import signal
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import settings, stateful
from hypothesis import strategies as st

import pabi
from pabi.budget import files
from pabi.budget import ledger as ledgers
from pabi.convert import gdp_to_delta
from support.interrupted import ONCE, with_a_bit_changed
from support.ledgers import DELTA, release

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and flock")
EPSILON = 1.0
MUS = (0.02, 0.05, 0.09, 0.2)


def ended(work):
    """The exit status of a process that does this."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            warnings.simplefilter("ignore")
            work()
            status = 0
        except pabi.BudgetExceeded:
            status = 3
        finally:
            os._exit(status)
    return process


class LedgerMachine(stateful.RuleBasedStateMachine):
    """The model is a list of [μ, whether it was committed]."""

    handles = stateful.Bundle("handles")
    reservations = stateful.Bundle("reservations")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="pabi-ledger-"))
        self.path = self.folder / "a.ledger"
        self.entries = []
        warnings.simplefilter("ignore", pabi.PrivacyWarning)

    def teardown(self):
        shutil.rmtree(self.folder)

    @stateful.initialize(target=handles)
    def first(self):
        return pabi.Ledger(self.path, EPSILON, DELTA)

    # Handles.

    @stateful.rule(target=handles)
    def opened(self):
        return pabi.Ledger(self.path, EPSILON, DELTA)

    @stateful.rule(target=handles, handle=handles, pickled=st.booleans())
    def copied(self, handle, pickled):
        return pickle.loads(pickle.dumps(handle)) if pickled else copy.copy(handle)

    @stateful.rule(epsilon=st.sampled_from([0.5, 2.0]))
    def opened_with_another_budget(self, epsilon):
        with pytest.raises(pabi.InvalidInput):
            pabi.Ledger(self.path, epsilon, DELTA)

    # Spending.

    def granted(self, mu):
        """Whether so much more is within the budget; None where rounding may decide."""
        spent = sum(release(m).mu ** 2 for m, _ in self.entries) + release(mu).mu ** 2
        delta = gdp_to_delta(spent**0.5, EPSILON)
        return None if abs(delta / DELTA - 1.0) < 1e-6 else delta < DELTA

    @stateful.rule(target=reservations, handle=handles, mu=st.sampled_from(MUS))
    def reserved(self, handle, mu):
        expected = self.granted(mu)
        try:
            reservation = handle.reserve(release(mu))
        except pabi.BudgetExceeded:
            assert expected is not True
            return stateful.multiple()
        assert expected is not False
        self.entries.append([mu, False])
        assert reservation.number == len(self.entries)
        return reservation

    @stateful.rule(reservation=reservations)
    def committed(self, reservation):
        reservation.commit()
        self.entries[reservation.number - 1][1] = True

    @stateful.rule(reservation=stateful.consumes(reservations))
    def forgotten(self, reservation):
        """Whoever made a reservation is gone: it stays."""
        del reservation

    @stateful.rule(handle=handles, mu=st.sampled_from(MUS))
    def refused_for_another_adjacency(self, handle, mu):
        if self.entries:
            with pytest.raises(pabi.InvalidInput):
                handle.spend(release(mu, "replace_one"))

    # Processes.

    def known(self, text):
        """What the entries are now, where the last ones are not known to have been granted."""
        entries = pabi.Ledger(self.path, EPSILON, DELTA).report().entries
        before = [release(mu).mu for mu, _ in self.entries]
        assert [entry.charge for entry in entries[: len(before)]] == before, text
        return list(entries[len(before) :])

    @stateful.rule(mu=st.sampled_from(MUS), size=st.integers(0, 6000))
    def killed(self, mu, size):
        """While it writes, after so many bytes: the entry is there or not, and all others are."""

        def work():
            ledger = pabi.Ledger(self.path, EPSILON, DELTA)
            write = os.write

            def deadly(file, data):
                done = write(file, bytes(data[:size]))
                if done < len(data):
                    os.kill(os.getpid(), signal.SIGKILL)
                return done

            files.os.write = deadly
            ledger.spend(release(mu))

        status = os.waitstatus_to_exitcode(os.waitpid(ended(work), 0)[1])
        assert status in (0, 3, -signal.SIGKILL)
        new = self.known("killed")
        assert len(new) <= 1
        assert status != 0 or len(new) == 1
        assert status != 3 or not new
        self.entries += [[mu, True]] * len(new)

    @stateful.rule(mu=st.sampled_from(MUS), count=st.integers(2, 3))
    def at_once(self, mu, count):
        """Processes that spend at the same time: as many entries as were granted."""
        started = [
            ended(lambda: pabi.Ledger(self.path, EPSILON, DELTA).spend(release(mu)))
            for _ in range(count)
        ]
        ends = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in started]
        assert set(ends) <= {0, 3}
        for _ in range(ends.count(0)):
            assert self.granted(mu) is not False
            self.entries.append([mu, True])
        assert 3 not in ends or self.granted(mu) is not True
        assert not self.known("at once")

    # Files.

    @stateful.rule(handle=handles, mu=st.sampled_from(MUS))
    def spent_in_a_copy(self, handle, mu):
        """A copy of the file is another ledger; this one does not see it."""
        other = self.folder / "b.ledger"
        shutil.copy(self.path, other)
        files.lock_beside(other).unlink(missing_ok=True)
        try:
            pabi.Ledger(other, EPSILON, DELTA).spend(release(mu))
        except pabi.BudgetExceeded:
            assert self.granted(mu) is not True

    @stateful.rule(
        handle=handles, place=st.floats(0.0, 1.0, exclude_max=True), bit=st.integers(0, 7)
    )
    def changed(self, handle, place, bit):
        """A bit of a line: whoever reads it anew refuses it, or reads what it said."""
        whole = self.path.read_bytes()
        self.path.write_bytes(with_a_bit_changed(whole, place, bit))
        try:
            entries, told = pickle.loads(pickle.dumps(handle)).report().entries, ""
        except pabi.InvalidInput as bad:
            entries, told = None, str(bad)
        assert "\n" not in told
        assert entries is None or len(entries) == len(self.entries)
        self.path.write_bytes(whole)

    @stateful.invariant()
    def within_the_budget(self):
        mu = sum(release(m).mu ** 2 for m, _ in self.entries) ** 0.5
        assert mu == 0.0 or gdp_to_delta(mu, EPSILON) <= DELTA * (1.0 + 1e-9)

    @stateful.rule(handle=handles)
    def nothing_is_lost(self, handle):
        entries = handle.report().entries
        assert [entry.number for entry in entries] == list(range(1, len(self.entries) + 1))
        assert [entry.charge for entry in entries] == [release(mu).mu for mu, _ in self.entries]
        assert [entry.committed for entry in entries] == [done for _, done in self.entries]
        if entries:
            assert pabi.verify(handle.guarantee).ok


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(
    max_examples=settings().max_examples // 5, stateful_step_count=15, deadline=None
)


@pytest.mark.parametrize("mistake", ["no refusal", "no append"])
def test_the_machine_notices_a_mistake(monkeypatch, mistake):
    if mistake == "no refusal":
        monkeypatch.setattr(ledgers, "_refuse_above", lambda *given: None)
    else:
        monkeypatch.setattr(ledgers, "append", lambda held, line, end: None)
    with pytest.raises(BaseException):  # noqa: B017 - of hypothesis, whatever it found
        stateful.run_state_machine_as_test(LedgerMachine, settings=settings(ONCE, max_examples=60))

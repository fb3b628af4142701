"""Processes that share a ledger and are killed: nothing is overspent, and nothing that was said is lost."""

import os
import threading

import pytest

import pabi
from pabi.convert import gdp_to_epsilon
from support.ledgers import DELTA, release, spent_by_killed_processes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and flock")
MU = 0.01


@pytest.mark.parametrize(
    ("grants", "kills"), [(300, 12), pytest.param(2000, 40, marks=pytest.mark.nightly)]
)
def test_kills_lose_and_overspend_nothing(tmp_path, grants, kills):
    path = tmp_path / "shared.ledger"
    # Room for so many, and for half of another one.
    epsilon = gdp_to_epsilon(MU * (grants + 0.5) ** 0.5, DELTA)
    told = spent_by_killed_processes(path, epsilon, release(MU), kills=kills)
    report = pabi.Ledger(path, epsilon, DELTA).report()
    assert len(report.entries) == grants
    assert [entry.number for entry in report.entries] == list(range(1, grants + 1))
    reserved = [int(number) for word, number in told if word == "reserved"]
    committed = {int(number) for word, number in told if word == "committed"}
    assert len(set(reserved)) == len(reserved)
    assert set(reserved) <= set(range(1, grants + 1))
    in_file = {entry.number for entry in report.entries if entry.committed}
    assert committed <= in_file
    # Of what is not committed a process died in between, at most one entry for each.
    assert grants - len(in_file) <= kills
    # Who was killed may have been told already that nothing is left.
    assert 8 <= sum(word == "refused" for word, _ in told) <= 8 + kills
    with pytest.raises(pabi.BudgetExceeded):
        pabi.Ledger(path, epsilon, DELTA).reserve(release(MU))


def test_threads_share_one_object(tmp_path):
    ledger = pabi.Ledger(tmp_path / "a.ledger", gdp_to_epsilon(MU * 60.5**0.5, DELTA), DELTA)
    numbers, refusals = [], []

    def spend():
        for _ in range(10):
            try:
                numbers.append(ledger.reserve(release(MU)).number)
            except pabi.BudgetExceeded as no:
                refusals.append(no)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 61))
    assert len(refusals) == 20

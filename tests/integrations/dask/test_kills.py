"""Workers and coordinators that are killed at random cost time, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pabi
from support.cluster_kills import SETTINGS
from support.large import package

TESTS = Path(__file__).parents[2]


def counted(kills, seed, seconds):
    """What happened in a campaign, which has processes of its own."""
    package("distributed")
    path = os.pathsep.join([str(Path(pabi.__file__).parents[1]), str(TESTS)])
    command = [sys.executable, "-W", "ignore", "-m", "support.cluster_kills"]
    finished = subprocess.run(
        [*command, "--kills", str(kills), "--seed", str(seed)],
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds,
        env=os.environ | SETTINGS | {"PYTHONPATH": path},
    )
    return json.loads(finished.stdout)


def assert_whole(counts, kills):
    assert counts["workers_killed"] + counts["coordinators_killed"] == kills
    assert counts["trainings"] == counts["exact"] >= 1
    assert counts["draws"] >= counts["steps"]
    assert counts["draws_used_twice"] == 0
    assert counts["refusals"] == []


def test_kills_lose_nothing():
    assert_whole(counted(6, seed=2, seconds=600), 6)


@pytest.mark.nightly
def test_many_kills_lose_nothing():
    counts = counted(200, seed=0, seconds=3600)
    assert_whole(counts, 200)
    assert min(counts["workers_killed"], counts["coordinators_killed"]) >= 50

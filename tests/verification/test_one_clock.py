"""One clock stands over a verification: over the accountant, and over all that is asked of a file."""

import json
import time
from pathlib import Path

import pytest

import pabi
from pabi.cli import main
from pabi.numbers.locking import OutOfTime, tick, until
from pabi.numbers.mixtures import mixture_epsilon_bounds, mixture_to_delta, mixture_to_epsilon
from pabi.tradeoff import BoundedRange, Gaussian, Grouped, Mixture, Product, Selected
from pabi.verification.arithmetic import Limits, Refused, within
from pabi.verification.bounds import JointBound, all_together

FILES = Path(__file__).parent.parent / "data" / "v0.1.0"
RANGES = Product([(BoundedRange(0.01 + 1e-3 * i), 1) for i in range(90)])
MIXTURE = Mixture([Gaussian(0.1 + 0.001 * i) for i in range(300)], [1 / 300] * 300)
# A claim may have more factors than are proven; whoever writes the file chooses them.
ADDED = {
    "groups of a product": [Grouped(RANGES, 1000)],
    "groups of a mixture": [Grouped(MIXTURE, 10**6)],
    "many groups": [Grouped(BoundedRange(0.1 + 1e-3 * i), 10**6 + i) for i in range(90)],
    "a selection of groups": [Selected(Grouped(RANGES, 99), 10.0, 0.1)],
    "many mixtures": [
        Mixture([Gaussian(1e-3 * i), MIXTURE.parts[0]], [0.5, 0.5]) for i in range(90)
    ],
}
# The latter for reading the text, and what lies between two looks at the clock.
SECONDS, CONSTANT = 0.2, 1.5


def forged(added):
    file = json.loads((FILES / "cyclic.json").read_text())
    factors = [{**curve.to_dict(), "count": 1} for curve in added]
    own = {**file["tradeoff"], "count": 1}
    file |= {"tradeoff": {"kind": "product", "factors": [own, *factors]}, "mu": None}
    file |= {"epsilon": 50.0, "delta": 1e-5, "version": 2}
    for name in ("tuned_at", "composition", "candidates"):
        file.pop(name, None)
    return json.dumps(file)


def many_gaussians():
    file = json.loads(forged([]))
    more = [{"kind": "gaussian", "mu": 1.0 + 1e-4 * i, "count": 1} for i in range(20_000)]
    file["tradeoff"]["factors"] += more
    return json.dumps(file)


TEXTS = {**{name: forged(added) for name, added in ADDED.items()}, "gaussians": many_gaussians()}


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_file_adds_to_a_claim_is_read_on_the_same_clock(name):
    begin = time.thread_time()
    verdict = pabi.verify(TEXTS[name], seconds=SECONDS)
    assert time.thread_time() - begin <= SECONDS + CONSTANT
    assert verdict.reason.startswith("time: nothing is decided within 0.2 s")


def test_a_mixture_of_many_cases_is_read_on_the_clock():
    """A file of seven megabytes has a hundred thousand of them, and ε takes several sums over all."""
    mus, weights = [1.0 + 1e-5 * i for i in range(1 << 12)], [2.0**-12] * (1 << 12)
    for read in (mixture_to_delta, mixture_to_epsilon, mixture_epsilon_bounds):
        with pytest.raises(OutOfTime), until(0.005):
            read(mus, weights, 1e-5)


def test_bounds_of_two_releases_are_paired_on_the_same_clock():
    """All pairs at once took three gigabytes, and half a minute."""
    first, second = (
        tuple(JointBound.gaussian(1.0 + 1e-4 * i) for i in range(count)) for count in (1024, 8000)
    )
    limits = Limits(size=1, depth=1, unpacked=1, positions=1, seconds=SECONDS)
    begin = time.thread_time()
    with within(limits), pytest.raises(Refused, match=r"within 0\.2 s"):
        all_together(first, second)
    assert time.thread_time() - begin <= SECONDS + 2.0


def test_an_outer_clock_is_not_set_back_by_an_inner_one():
    with pytest.raises(OutOfTime, match=r"within 0\.01 s"), until(0.01):  # noqa: SIM117
        with until(100.0):
            while True:
                tick()
    tick()  # and goes on for nobody afterwards


def test_what_is_asked_of_an_accepted_file_is_on_the_clock_as_well(tmp_path, capsys):
    """A ledger's budget of groups is accepted at once; its readings at other δ take longer."""
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0), 2000, pabi.ShuffleOnce(50), epochs=5, step_size=0.5,
        noise_std=0.05,
    )  # fmt: skip
    file = tmp_path / "groups.json"
    file.write_text(run.guarantee(1e-5).for_groups(1000).to_json(), "utf-8")
    begin = time.thread_time()
    for arguments in (["verify", str(file), "--delta", "1e-7"], ["report", str(file)]):
        assert main([*arguments, "--seconds", "0.05"]) != 0
        out = capsys.readouterr()
        assert "0.05" in out.out + out.err
    assert time.thread_time() - begin <= 2 * (0.05 + CONSTANT)

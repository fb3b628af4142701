"""Attacks on what is said of Langevin samplers, exponential mechanisms and the best of several bounds.

First the truth against closed forms, then the accountant against the truth, then certificates that lie, then
numbers that are hardly numbers. "Once wrong" marks what an attack has found.
"""

from __future__ import annotations

import copy
import io
import json
import sys
from pathlib import Path

import pytest

import pabi
from pabi import Loss
from pabi.errors import InvalidInput
from pabi.tradeoff import Best, BoundedRange, Gaussian, PoissonSubsampled

sys.path.insert(0, str(Path(__file__).parent))

CONVEX = Loss.convex(1.0, gradient_bound=1.0)


def draw(loss=CONVEX, **changes):
    given = {"n": 100, "dimension": 2, "diameter": 1.0, "epsilon": 2.0} | changes
    return pabi.ExponentialMechanism(loss, **given)


def sampled_run(batches, adjacency="replace_one"):
    return pabi.NoisySGD(
        Loss.logistic(1.0),
        n=100,
        batches=batches,
        epochs=2,
        step_size=0.1,
        noise_std=0.2,
        adjacency=adjacency,
    )


def verified_by_command(table, capsys, monkeypatch, *options):
    """(exit status, standard output, standard error) of `pabi verify -`."""
    from pabi.cli import main

    text = io.TextIOWrapper(io.BytesIO(json.dumps(table).encode()))
    monkeypatch.setattr(sys, "stdin", text)
    status = main(["verify", "-", *options])
    said = capsys.readouterr()
    return status, said.out, said.err


# Once wrong: composed with random batches.


@pytest.mark.parametrize(
    "batches", [pabi.FixedSize(10), pabi.Poisson(10)], ids=["fixed", "poisson"]
)
def test_the_command_reads_random_batches_beside_other_factors(batches, capsys, monkeypatch):
    """Once wrong: of several bounds it left the sampled factors and the failure out, and a gate passed."""
    found = pabi.compose(draw(epsilon=0.1).guarantee(1e-3), sampled_run(batches).guarantee(1e-3))
    truth = found.epsilon(1e-3)
    assert truth > 2.0
    for table in (json.loads(found.to_json()), found.certificate.payload):
        target = repr(0.9 * truth), repr(1.1 * truth)
        for epsilon, wanted in zip(target, (1, 0), strict=True):
            options = ("--epsilon", epsilon, "--delta", "1e-3")
            status, out, _ = verified_by_command(table, capsys, monkeypatch, *options)
            assert status == wanted, out


def test_the_command_reads_a_failure_alone(capsys, monkeypatch):
    """Once wrong: a claim that may fail was read as one that cannot."""
    payload = copy.deepcopy(draw().guarantee(1e-3).certificate.payload)
    claim = {"kind": "product", "failure": 0.01}
    claim["factors"] = [{"kind": "bounded_range", "epsilon": 2.0, "count": 1}]
    payload["claim"] = {"tradeoff": claim}
    assert pabi.verify(payload).ok
    status, out, _ = verified_by_command(
        payload, capsys, monkeypatch, "--epsilon", "9", "--delta", "1e-3"
    )
    assert (status, "NOT implied" in out) == (1, True)


def test_draws_compose_with_poisson_batches_in_both_orders():
    """Once wrong: refused, because only functions that are their own inverse had a best."""
    poisson = sampled_run(pabi.Poisson(10, cap=40), "zero_out").guarantee(1e-3)
    one = draw(adjacency="zero_out").guarantee(1e-3)
    forth, back = pabi.compose(one, poisson), pabi.compose(poisson, one)
    parts = [part.compose(poisson.curve) for part in (BoundedRange(1.0), Gaussian(2.0))]
    assert forth.epsilon(1e-3) == back.epsilon(1e-3)
    assert forth.epsilon(1e-3) >= poisson.epsilon(1e-3)
    assert Best(parts).epsilon(1e-3) == min(part.epsilon(1e-3) for part in parts)
    assert Best(parts).inverse() == Best(parts)
    verdict = pabi.verify(forth)
    assert verdict.ok, verdict.reason
    with pytest.raises(InvalidInput, match="orientation"):
        Best(parts).compose(PoissonSubsampled(1.0, 0.1, "remove"))

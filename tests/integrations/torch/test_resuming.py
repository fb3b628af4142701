"""Trainings that are interrupted and go on, and noise that is found for an ε."""

from __future__ import annotations

import stat
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.execute.engine import RESUMED
from pabi.execute.linear_gradients import LossGradients
from support.every_case import every, refused
from support.frameworks import framework
from support.modules import D, K, N, linear, pairs, run, table

torch = framework("torch")
from pabi.integrations import torch as integration  # noqa: E402
from pabi.integrations.torch.datasets import SAME  # noqa: E402
from pabi.integrations.torch.training import ModuleGradients  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore:some rows exceed"),
]

X, CLASSES = table()
HEAD = run(pabi.Loss.softmax(2.0, l2=0.1), batches=pabi.Reshuffle(10), noise_std=0.5)
WHOLE = replace(HEAD, loss=pabi.Loss.unknown(), clip_norm=1.0, update=pabi.updates.Adam())
AT = 9  # the step that is not taken, within an epoch


class Crash(KeyboardInterrupt):
    pass


def trained(whole=False, module=None, described=None, **options):
    if whole:
        module = module or torch.nn.Sequential(linear(D, 4), torch.nn.Tanh(), linear(4, K))
        options["loss"] = torch.nn.CrossEntropyLoss()
    described = described or (WHOLE if whole else HEAD)
    return integration.train(module or linear(D, K), pairs(X, CLASSES), described, **options)


def interrupted(whole, path, at=AT, **options):
    """A training that ends in the gradients of step `at`, having kept the state before it."""
    with pytest.MonkeyPatch.context() as patch:
        where, name = (ModuleGradients, "__call__") if whole else (LossGradients, "clipped_sum")
        original, calls = getattr(where, name), []

        def counted(self, *args, **kwargs):
            calls.append(0)
            if len(calls) == at:
                raise Crash
            return original(self, *args, **kwargs)

        patch.setattr(where, name, counted)
        with pytest.raises(Crash):
            trained(whole, checkpoint=path, checkpoint_seconds=0.0, **options)


@every("whole", [False, True])
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path, whole):
    """One stream of noise for both parts, which draws as one run does: every number is the same."""
    path = tmp_path / f"secret-{whole}"
    stream = np.random.default_rng(5)
    interrupted(whole, path, random_state=stream)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    result = trained(whole, resume=path, random_state=stream)
    wanted = trained(whole, random_state=np.random.default_rng(5))
    assert np.array_equal(result.x, wanted.x)
    for name, value in wanted.module.state_dict().items():
        assert torch.equal(result.module.state_dict()[name], value)
    assert not path.exists()


@every("whole", [False, True])
def test_what_was_assumed_of_one_part_is_assumed_of_the_whole(tmp_path, whole):
    interrupted(whole, tmp_path / "fair")
    fair = trained(whole, resume=tmp_path / "fair").guarantee
    assert {RESUMED, SAME} <= set(fair.assumptions)
    assert pabi.verify(fair).ok
    interrupted(whole, tmp_path / "seeded", random_state=0)
    ledger = pabi.Ledger(tmp_path / f"ledger-{whole}", 1e3, 1e-5)
    seeded = trained(whole, resume=tmp_path / "seeded", ledger=ledger).guarantee
    assert "testing only" in seeded.assumptions[0]
    assert seeded.certificate is None
    (entry,) = ledger.report().entries
    assert entry.testing


def test_a_file_that_does_not_serve_is_refused_before_anything_is_charged(tmp_path):
    path, ledger = tmp_path / "secret", pabi.Ledger(tmp_path / "ledger", 1e3, 1e-5)
    interrupted(False, path)
    moments = pabi.NoisySecondMoments(N, D + 1, feature_norm=2.0, noise_std=0.5)
    kept = path.read_bytes()
    for field, options in (
        ("checkpoint", {"checkpoint": path}),
        ("resume", {"resume": tmp_path / "none"}),
        ("resume", {"resume": path, "described": replace(HEAD, epochs=4)}),
        ("x0", {"resume": path, "module": linear(D, K, seed=3)}),
        *(("checkpoint_seconds", {"resume": path, "checkpoint_seconds": s}) for s in (-1.0, "60")),
        *((name, {name: path, "precondition": moments}) for name in ("checkpoint", "resume")),
    ):
        refused(field, trained, ledger=ledger, **options)
    assert not ledger.report().entries
    assert path.read_bytes() == kept


# ε.


@every("whole", [False, True])
def test_epsilon_finds_the_noise_of_calibrate(tmp_path, whole):
    described = replace(WHOLE if whole else HEAD, noise_std=None)
    options = {"epsilon": 8.0, "delta": 1e-6, "described": described}
    result = trained(whole, **options)
    assert result.run == pabi.calibrate(described, epsilon=8.0, delta=1e-6)
    assert 7.9 < result.guarantee.epsilon(1e-6) <= 8.0
    interrupted(whole, tmp_path / f"{whole}", **options)
    assert trained(whole, resume=tmp_path / f"{whole}", **options).run == result.run


def test_epsilon_counts_second_moments(tmp_path):
    moments = pabi.NoisySecondMoments(N, D + 1, feature_norm=2.0, noise_multiplier=4.0)
    ledger = pabi.Ledger(tmp_path / "ledger", 5.0, 1e-5)
    described = replace(HEAD, loss=pabi.Loss.softmax(1.0))
    result = trained(described=described, epsilon=3.0, precondition=moments, ledger=ledger)
    assert 2.97 < result.guarantee.epsilon(1e-5) <= 3.0
    with pytest.raises(pabi.TargetUnreachable):
        trained(described=described, epsilon=0.5, precondition=moments)
    refused("epsilon", trained, epsilon=-1.0)

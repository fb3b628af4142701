"""Room for the rounding of sums: taken off the gradients, or hidden by more noise where they must stay."""

import numpy as np
import pytest

from pabi.describe.batches import FullBatch
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute import engine
from pabi.execute.sums import Limit, noise_factor, per_record_sum
from pabi.learn import train
from pabi.numbers.errors import PrivacyWarning
from support.every_case import every

CONVEX = Loss.convex(smoothness=1.0, gradient_bound=1.0)
STRONG = Loss.strongly_convex(strong_convexity=0.5, smoothness=1.0, gradient_bound=1.0)


def run_of(loss, n=2_000, **changes):
    given = {"batches": FullBatch(), "steps": 1, "step_size": 0.5, "noise_std": 0.1, **changes}
    return NoisySGD(loss, n=n, **given)


@every("loss", [CONVEX, STRONG, STRONG.with_l2(0.1), CONVEX.with_l2(0.1)])
@every("changes", [{}, {"clip_norm": 0.5}])
def test_either_the_gradients_or_the_noise_leave_room(loss, changes):
    run = run_of(loss, **changes)
    bound = changes.get("clip_norm", 1.0)
    limit, factor = Limit.of(run, run.n), noise_factor(run)
    room = 2.0 * run.n * (run.n + 16.0) * 2.0**-53
    if loss.curvature[0] > 0.0:
        assert (limit.clip, limit.shrink) == (bound, 1.0)
        assert 1.0 + room <= factor <= 1.0 + 1.01 * room
    else:
        assert limit.clip <= bound * (1.0 - 0.99 * room)
        assert limit.shrink <= 1.0 - 0.99 * room
        assert factor == 1.0


def test_gradients_of_strongly_convex_losses_are_summed_as_they_are():
    """Close to the bound, where a lower one would clip and so take their curvature away."""
    each = np.full((2_000, 1), 1.0 - 1e-12)  # the room is 1e-9

    def total(loss):
        summed = per_record_sum(lambda x, rows: each[rows], run_of(loss))
        return float(summed(np.zeros(1), slice(0, 2_000))[0])

    assert total(STRONG) == pytest.approx(2_000.0 * (1.0 - 1e-12), rel=1e-14)
    assert total(CONVEX) < 2_000.0 * (1.0 - 1e-10)


def test_the_noise_is_raised(monkeypatch):
    """But for a stated sensitivity, which is left alone."""

    def last(factor):
        monkeypatch.setattr(engine, "noise_factor", lambda run: factor)
        with pytest.warns(PrivacyWarning):
            return train(run_of(STRONG), nothing, np.zeros(3), random_state=1).x

    def nothing(x, rows):
        return np.zeros((len(rows), *x.shape))

    np.testing.assert_allclose(last(2.0), 2.0 * last(1.0), rtol=1e-4)
    monkeypatch.undo()
    assert noise_factor(run_of(STRONG)) > 1.0
    run = run_of(Loss.strongly_convex(0.5, 1.0), gradient_sensitivity=1.0)
    assert (noise_factor(run), Limit.of(run, run.n).clip) == (1.0, None)

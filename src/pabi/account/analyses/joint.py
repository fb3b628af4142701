"""Joint payments: a record in one of many bins, whose uses are paid for with all bins in view.

What is paid for a use at once moves a step that no other bin moves, and hides among all bins. What is paid
little by little hides behind the noise of many steps, which other bins move as well. `secret_steps` does only
the former, `secret_place` only the latter, with the payments that are best for each bin by itself (docs,
"Joint payments").
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from pabi.account.analyses.secret_order import hidden_order, require_independent_places
from pabi.account.analyses.shifted_interpolation import DEFAULT_DELTA
from pabi.account.analyses.writing import SampledProof, but_for, computed
from pabi.account.facts.positions import OrderedView
from pabi.account.shifts.joint import Bins, best, grouped, spread
from pabi.describe.batches import FAILING
from pabi.describe.runs import NoisySGD
from pabi.numbers import encoding
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array, fraction_up
from pabi.tradeoff import Gaussian, Product, RandomAllocation, TradeOff
from pabi.verification.granting import Proposal

NAME = "joint payments"

_MOST = 4_000_000  # bins times steps, which are gone through one by one
_GREATEST = 3.0  # noises by which a bin moves the model
_KINDS, _FEW_KINDS = 8, 4  # of bins; where two releases are composed


def apply(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate when the record's bin moves no other record."""
    order = hidden_order(run)
    require_independent_places(run, order)
    at = delta or DEFAULT_DELTA
    # What one record moves by itself is what it moves if its neighbour is zero.
    view = OrderedView(replace(run, adjacency="zero_out"), FAILING * at)
    if max(view.period, 2) * run.steps > _MOST:
        raise NotApplicable(f"more than {_MOST} steps of all bins, which are looked at one by one")
    c, s, sigma = view.arrays
    places = Bins(c, s, sigma, run.data_steps, view.period)
    if not places.solvable:
        raise NotApplicable("a step without noise, or distances that grow without bounds")
    opposite = run.adjacency == "replace_one"
    payments = best(places, at, alike=opposite)
    alpha, beta = spread(places.common(places.noises(range(view.period)), payments), alike=opposite)
    if np.hypot(alpha, beta).max() > _GREATEST:
        raise NotApplicable("the record moves the model by so much that its place is seen")
    plan = {
        "now": encoding.floats(payments.now),
        "rate": encoding.floats(payments.rate),
        "common": encoding.floats(alpha),
    }
    curve = but_for(_curve(alpha, beta, opposite), view.fractions)
    cap = view.fractions.random_cap
    return computed(SampledProof(NAME, run, curve, lambda: plan, cap=cap))


def _curve(alpha: Array, beta: Array, opposite: bool) -> TradeOff:
    """What is revealed of bins of these numbers."""
    kinds = grouped(alpha, beta, _FEW_KINDS if opposite else _KINDS)
    common, sizes, counts = zip(*kinds, strict=True)
    shares = [fraction_up(Fraction(n, alpha.size)) for n in counts]
    if not opposite:
        return RandomAllocation(shares, sizes, counts, common=common)
    # With one number in common, that is a release of its own.
    return Product(
        [(RandomAllocation(shares, sizes, counts, True), 1), (Gaussian(2.0 * max(common)), 1)]
    )

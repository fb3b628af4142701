"""Readings of every public curve: arrays against scalars, and both against 40 digits where a form is closed.

A δ(ε) below the truth, or a value of f above it, is a defect by any amount; where a form is closed, so is one
further off than roundings. "Truth" is a value at 60 digits of something the curve certainly reveals: of the
curve itself where the form is closed, else of a mechanism that it covers.
"""

import math

import mpmath as mp
import numpy as np
import pytest

from pabi import tradeoff as t
from support.every_case import every
from support.normal_mixtures import (
    PLAIN,
    drawn,
    gaussian_delta,
    gaussian_tradeoff,
    hockey_stick,
    parts_of,
    turned,
)

M = mp.mpf
INF = math.inf
SLACK = M(10) ** -35  # relative: the error of the truth


# Truths: δ of a pair at any finite ε.


def both(forward):
    """δ of a symmetric function at any ε from that at ε ≥ 0."""
    return lambda e: forward(e) if e >= 0 else 1 - mp.exp(e) * (1 - forward(-e))


def gaussian(mu):
    return both(lambda e: gaussian_delta(mu, e) if mu else M(0))


def mixture(mus, weights):
    parts = [(M(w), gaussian(m)) for m, w in zip(mus, weights, strict=True)]
    return lambda e: mp.fsum(w * g(e) for w, g in parts)


def approx_dp(top, delta):
    top, delta = M(top), M(delta)

    def forward(e):
        inside = (mp.exp(top) - mp.exp(e)) / (mp.exp(top) + 1) if e < top else M(0)
        return delta + (1 - delta) * inside

    return both(forward)


def laplace(top, p=1):
    top, p = M(top), M(p)

    def forward(e):
        inner = mp.log1p(mp.expm1(e) / p)
        return -p * mp.expm1((inner - top) / 2) if inner < top else M(0)

    return both(forward)


def bounded_range(top):
    top = M(top)
    return both(lambda e: mp.expm1((e - top) / 2) ** 2 / -mp.expm1(-top) if e < top else M(0))


def subsampled(mu, p):
    inner, p = gaussian(mu), M(p)
    return both(lambda e: p * inner(mp.log1p(mp.expm1(e) / p)))


def worse(*values):
    return lambda e: max(v(e) for v in values)


def listed(p, q):
    p, q = [M(x) for x in p], [M(x) for x in q]
    return lambda e: mp.fsum(max(M(0), a - mp.exp(e) * b) for a, b in zip(p, q, strict=True))


def group_of_approx(top, delta, size):
    """1 - f of the chain is that of one link iterated: concave and polygonal; δ is read at its corners."""
    rate, delta = mp.exp(M(top)), M(delta)
    corner = (1 - delta) / (1 + rate)

    def link(a):
        return min(M(1), delta + rate * a, 1 - (1 - delta - a) / rate)

    def chain(a):
        for _ in range(size):
            a = link(a)
        return a

    def back(a):  # where the link is `a`, if anywhere
        return (a - delta) / rate if a <= delta + rate * corner else 1 - delta - rate * (1 - a)

    corners, at = [M(0), M(1)], [corner, 1 - delta]
    for _ in range(size):
        corners += [a for a in at if 0 <= a <= 1]
        at = [b for a in at if 0 <= (b := back(a)) <= 1]
    return lambda e: max(chain(a) - mp.exp(e) * a for a in corners)


P6 = (0.1, 0.2, 0.3, 0.05, 0.25, 0.1)
Q6 = (0.3, 0.1, 0.2, 0.05, 0.3, 0.05)
P0, Q0 = (0.5, 0.25, 0.25, 0.0), (0.25, 0.5, 0.0, 0.25)


def secret(means, weights, opposite):
    one = parts_of(means, weights)
    forward = hockey_stick(one, parts_of(means, weights, -1) if opposite else PLAIN)
    truth = forward if opposite else worse(forward, turned(forward))
    return t.SecretMixture(means, weights, opposite), truth


def displaced(norm, other, apart, p):
    """In the order that removes; back, it is that of the gradient that makes room."""
    first, second = (hockey_stick(drawn(p, a), drawn(p, a - apart)) for a in (norm, other))
    curve = t.FixedSizeSubsampled(norm, other, apart, p, "remove")
    return curve, lambda e: first(e) if e >= 0 else turned(second)(e)


def f_gaussian(mu):
    return lambda a: M(1) - a if a in (0, 1) else gaussian_tradeoff(mu, a)


def f_approx(top, delta):
    top, delta = mp.exp(M(top)), M(delta)
    return lambda a: max(M(0), 1 - delta - top * a, (1 - delta - a) / top)


def f_laplace(top):
    top = M(top)

    def f(a):
        if a < mp.exp(-top) / 2:
            return 1 - mp.exp(top) * a
        return mp.exp(-top) / (4 * a) if a <= M(1) / 2 else mp.exp(-top) * (1 - a)

    return f


MIXED = [((0.3, 2.0), (0.75, 0.25)), ((0.0, 5.0), (1.0 - 2.0**-40, 2.0**-40))]
APPROX = [(1.25, 1e-3), (0.1, 0.0), (1e-12, 0.0), (0.0, 0.3), (0.5, 1e-300), (3.0, 0.9)]
APPROX += [(30.0, 0.0)]
LAPLACE = [(e, p) for e in (1e-3, 0.4, 3.0) for p in (1e-3, 0.3, 1.0)]
LAPLACE += [(0.8, 1.0), (50.0, 1.0), (1.3, 0.1), (2.0, 1e-9)]
REPLACED = [(0.1, 0.5), (0.3, 0.01), (1.0, 0.1), (1.0, 1e-4), (2.5, 0.9), (6.0, 0.3), (0.9, 0.3)]
REPLACED += [(3.0, 1e-6)]
DISPLACED = [(2.0, 1.0, 1.7, 0.02), (0.2, 0.1, 0.1, 0.01), (6.0, 3.0, 3.0, 0.3)]
DISPLACED += [(0.7, 0.7, 0.9, 0.9)]
SECRETS = [((0.0, 1.0), (0.9, 0.1)), ((0.7, 0.8, 1.0, 1.6), (0.25,) * 4), ((0.25, 2.0), (0.5, 0.5))]
SECRETS += [((0.01, 0.02), (0.5, 0.5)), ((0.0, 3.0, 6.0), (0.5, 0.49, 0.01))]
SECRETS += [((0.0, 1.0, 2.5), (0.5, 0.25, 0.25))]
NOTHING = gaussian(0), f_gaussian(0)
TWO = t.Mixture([t.Gaussian(0.3), t.Gaussian(2.0)], [0.75, 0.25])
TWICE = [mp.sqrt(2) * M(0.3), mp.sqrt(M(0.3) ** 2 + 4), mp.sqrt(8)], [0.5625, 0.375, 0.0625]
PP, QQ = ([M(a) * b for a in x for b in x] for x in (P6, Q6))


def of_fixed_size():
    forward = [hockey_stick(drawn(0.25, a), drawn(0.25, a - 1.25)) for a in (0.5, 1)]
    return lambda e: forward[0](e) if e >= 0 else turned(forward[1])(e)


# Curves, with δ and f of what they reveal where these are known.
KNOWN = {
    **{
        f"gaussian {m}": (t.Gaussian(m), gaussian(m), f_gaussian(m)) for m in (0.0, 1e-9, 0.7, 30.0)
    },
    **{f"mixture {m}": (t.Mixture(map(t.Gaussian, m), w), mixture(m, w)) for m, w in MIXED},
    **{f"approx {e} {d}": (t.ApproxDP(e, d), approx_dp(e, d), f_approx(e, d)) for e, d in APPROX},
    **{
        f"laplace {e} {p}": (t.Laplace(e, p), laplace(e, p), f_laplace(e) if p == 1.0 else None)
        for e, p in LAPLACE
    },
    **{f"range {e}": (t.BoundedRange(e), bounded_range(e)) for e in (0.5, 1e-9, 1e-170)},
    **{
        f"subsampled {mu} {p}": (t.Subsampled(t.Gaussian(mu), p), subsampled(mu, p))
        for mu, p in ((0.01, 1e-300), (1.2, 0.05), (3.0, 1e-8))
    },
    "subsampled nothing": (t.Subsampled(t.Gaussian(0.0), 0.5), *NOTHING),
    "subsampled never": (t.Subsampled(t.Gaussian(1.0), 0.0), *NOTHING),
    "poisson": (t.PoissonSubsampled(1.1, 0.2), subsampled(1.1, 0.2)),
    "remove": (t.PoissonSubsampled(1.1, 0.2, "remove"), hockey_stick(drawn(0.2, 1.1), PLAIN)),
    "add": (t.PoissonSubsampled(1.1, 0.2, "add"), turned(hockey_stick(drawn(0.2, 1.1), PLAIN))),
    **{
        f"replaced {mu} {p}": (t.PoissonReplaced(mu, p), hockey_stick(drawn(p, mu), drawn(p, -mu)))
        for mu, p in REPLACED
    },
    "fixed size": (  # D(a, m) one of the orders it covers, at ε ≥ 0
        t.FixedSizeSubsampled(1.0, 1.0, 1.5, 0.25),
        both(hockey_stick(drawn(0.25, 1), drawn(0.25, -0.5))),
    ),
    "fixed size add": (t.FixedSizeSubsampled(1.0, 0.5, 1.25, 0.25, "add"), of_fixed_size()),
    **{f"displaced {case}": displaced(*case) for case in DISPLACED},
    **{f"secret {case} {way}": secret(*case, way) for case in SECRETS for way in (False, True)},
    "renyi": (t.RenyiDP(8.0, 0.25), gaussian(0.24999999), f_gaussian(0.24999999)),  # μ² = 2ρ/α
    "renyi small": (t.RenyiDP(32.0, 1e-6), gaussian(0.00024999999)),
    "listed": (t.PrivacyLossDistribution(P6, Q6), worse(listed(P6, Q6), listed(Q6, P6))),
    "listed remove": (t.PrivacyLossDistribution(P6, Q6, "remove"), listed(P6, Q6)),
    "listed infinite": (t.PrivacyLossDistribution(P0, Q0, "add"), listed(Q0, P0)),
    "grouped gaussian": (t.Grouped(t.Gaussian(0.5), 3), gaussian(1.5), f_gaussian(1.5)),
    "grouped pure": (t.Grouped(t.ApproxDP(0.25), 4), group_of_approx(0.25, 0, 4)),
    "grouped approx": (t.Grouped(t.ApproxDP(0.25, 1e-6), 4), group_of_approx(0.25, 1e-6, 4)),
    "selected": (t.Selected(t.Gaussian(0.5), 4.0, 0.25), gaussian(0.5), f_gaussian(0.5)),
    "selected laplace": (t.selected(t.Laplace(0.5), 3.0), laplace(0.5)),
    "best": (t.Best([t.Gaussian(0.7), t.ApproxDP(1.0)]), None),
    "best alike": (t.Best([t.Laplace(0.8), t.ApproxDP(0.8)]), laplace(0.8), f_laplace(0.8)),
    "product one": (t.Product([(t.Laplace(0.8), 1)]), laplace(0.8), f_laplace(0.8)),
    "product failing": (
        t.Product([(t.Laplace(0.8), 1)], 1e-4),
        lambda e: min(M(1), laplace(0.8)(e) + M(1e-4)),
    ),
    "product mixture": (t.Product([(TWO, 2)]), mixture(*TWICE)),
    "product listed": (
        t.PrivacyLossDistribution(P6, Q6).self_compose(2),
        worse(listed(PP, QQ), listed(QQ, PP)),
    ),
    "response": (t.randomised_response(0.5, 4), None),
    "discrete laplace": (t.discrete_laplace(0.5, 2), None),
}
CASES = {name: (*case, None)[:3] for name, case in KNOWN.items()}
# Whose readings are the truth but for roundings.
CLOSED = (t.Gaussian, t.Mixture, t.ApproxDP, t.Laplace, t.BoundedRange, t.Subsampled)
CLOSED += (t.PoissonReplaced,)
CLOSED += (t.FixedSizeSubsampled, t.SecretMixture, t.PrivacyLossDistribution)
SIZES = (5e-324, 1e-300, 1e-20, 1e-16, 1e-10, 1e-5, 1e-3, 0.01, 0.1, 0.24, 0.5, 0.8, 0.99, 1.0, 1.25, 2.0,
         3.0, 5.0, 10.0, 20.0, 30.0, 31.0, 49.999, 100.0, 500.0, 699.0, 745.0, 1e4)  # fmt: skip
ALPHAS = (0.0, 5e-324, 1e-310, 1e-300, 1e-100, 1e-16, 1e-9, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999, 1 - 1e-9,
          1 - 2.0**-53, 1.0)  # fmt: skip


def kinks(curve):
    found = {getattr(curve, "epsilon_0", 0.0), getattr(curve, "_most", 0.0)}
    if isinstance(curve, t.PrivacyLossDistribution):
        found |= {float(x) for x in np.abs(curve.values) if math.isfinite(x)}
    return [
        y
        for x in found
        for y in (x, math.nextafter(x, 0.0), math.nextafter(x, 9.0), x * (1 - 1e-12))
    ]


def points(curve):
    sizes = sorted({*SIZES, *kinks(curve)} - {0.0})
    if isinstance(curve, t.Product):  # a reading may take a tenth of a second
        sizes = [1e-300, 1e-10, 0.01, 0.5, 3.0, 745.0]
    if isinstance(curve, t.PoissonReplaced | t.FixedSizeSubsampled | t.SecretMixture):
        # A truth takes 20 ms.
        sizes = [x for x in sizes if x in (5e-324, 1e-300, 1e-16, 1e-3, 0.5, 1.0, 3.0, 20.0, 100.0)]
    return [-INF, *(-x for x in reversed(sizes)), 0.0, *sizes, INF]


def below(claimed, truth):
    return M(claimed) < min(M(1), truth) * (1 - SLACK)


CHUNKS = pytest.mark.parametrize("names", [[*CASES][k::10] for k in range(10)], ids=range(10))


@CHUNKS
def test_delta_of_arrays_and_of_numbers_are_alike_and_never_below_the_truth(names):
    for name in names:
        (curve, truth, _), wrong = CASES[name], []
        at = points(curve)
        many = curve.delta(np.array(at))
        single = np.array([curve.delta(e) for e in at])
        assert ((many >= 0.0) & (many <= 1.0) & (single >= 0.0) & (single <= 1.0)).all(), name
        for e, values in zip(at, zip(many.tolist(), single.tolist(), strict=True), strict=True):
            if truth is not None and not math.isinf(e):
                exact = truth(M(e))
                most = exact * (1 + 2e-9) + 2e-13 if isinstance(curve, CLOSED) else INF
                wrong += [(e, x, mp.nstr(exact, 20)) for x in values if below(x, exact) or x > most]
        assert not wrong, (name, wrong)
        # An array of a product is read from few transforms: up to 65 % above the single readings.
        loose = 0.5 if isinstance(curve, t.Product) else 1e-9
        gap = np.abs(many - single) > loose * np.maximum(many, single) + 1e-13
        assert not gap.any(), (name, [(at[i], many[i], single[i]) for i in np.flatnonzero(gap)])
        # One array, another order, another shape: the same numbers within what is allowed.
        again = curve.delta(np.array(at[::-1]).reshape(-1, 1))
        assert again.shape == (len(at), 1)
        rtol = 1.0 if isinstance(curve, t.Product) else 1e-6
        assert np.allclose(again[::-1, 0], many, rtol=rtol, atol=1e-13), name


@CHUNKS
def test_f_is_never_above_a_line_of_the_truth(names):
    # δ(ε) = sup 1 - f(a) - e^ε·a: an f above the truth somewhere would give a δ below it, so that
    # the polygon of claimed values, above a convex claimed f between them, tells only at its corners.
    for name in names:
        (curve, _, f), wrong = CASES[name], []
        many = curve(np.array(ALPHAS))
        single = [curve(a) for a in ALPHAS]
        assert np.allclose(many, single, rtol=1e-9, atol=1e-300), name
        for a, values in zip(ALPHAS, zip(many.tolist(), single, strict=True), strict=True):
            exact = f(M(a)) * (1 + SLACK) if f else INF
            if f and isinstance(curve, CLOSED):
                wrong += [(a, x) for x in values if M(x) < exact * (1 - 1e-9) - 1e-13]
            wrong += [(a, x) for x in values if x > 1.0 - a + 1e-16 and M(x) > 1 - M(a)]
            wrong += [(a, x, mp.nstr(exact, 20)) for x in values if M(x) > exact]
        assert not wrong, (name, wrong)


DELTAS = (0.0, 5e-324, 1e-300, 1e-100, 1e-30, 1e-12, 1e-6, 1e-3, 0.01, 0.3, 0.9, 1.0 - 1e-9, 1.0)


@CHUNKS
def test_epsilon_at_delta_is_enough(names):
    """δ(ε(δ)) ≤ δ by the truth: what is read off proves what it says."""
    for name in names:
        (curve, truth, _), wrong = CASES[name], []
        for delta in DELTAS if truth else ():
            if isinstance(curve, t.Product | t.PoissonSubsampled) and 0.0 < delta < 1e-12:
                continue
            low, high = curve.epsilon_bounds(delta)
            assert low <= high, (name, delta)
            # And by its own word, which of products ends where their largest loss is all that is left.
            if high < INF and delta >= (1e-3 if name == "product listed" else 1e-12):
                assert curve.delta(high) <= delta * (1 + 1e-2), (name, delta)
            if isinstance(curve, CLOSED) and 1e-12 <= delta < 1.0:
                assert high == INF or high <= low * (1.0 + 1e-8) + 1e-8, (name, delta)
                enough = not 1e-7 <= low < INF or truth(M(low) * (1 - 1e-8)) >= M(delta)
                assert enough, (name, delta)
            wrong += [
                (delta, e, mp.nstr(truth(M(e)), 20))
                for e in {curve.epsilon(delta), high}
                if e < INF and min(M(1), truth(M(e))) * (1 - SLACK) > M(delta)
            ]
        assert not wrong, (name, wrong)


def test_a_lower_epsilon_of_a_product_of_lists_is_not_above_the_truth():
    """Of two outcomes the largest loss has mass: ε at δ is where p^k - e^ε·q^k = δ, exactly."""
    tiny, k = 1e-6, 3
    p, q = (0.5, 0.5), (0.5 - tiny, 0.5 + tiny)
    product = t.PrivacyLossDistribution(p, q, "remove").self_compose(k)
    most = k * mp.log(M(p[0]) / M(q[0]))
    for delta in (0.0, 1e-25, 1e-20):
        low, high = product.epsilon_bounds(delta)
        at = mp.log((M(p[0]) ** k - M(delta)) / M(q[0]) ** k)
        assert at <= most
        assert M(low) <= at <= M(high)


@every("mu", [5.0, 10.9])
def test_far_out_subtracted_tails_are_not_taken_for_more_than_they_are(mu):
    """There a tail is a subnormal double, and e^ε is as large as it is small."""
    curve = t.PoissonReplaced(mu, 0.999)
    at = np.linspace(50.0, 600.0, 56)
    single = np.array([curve.delta(e) for e in at.tolist()])
    assert (curve.delta(at) >= single * (1.0 - 1e-13)).all()


def test_quotients_that_overflow_are_not_taken_for_nothing():
    for curve in (t.Laplace(1000.0, 1e-300), t.Subsampled(t.Gaussian(60.0), 1e-300)):
        assert curve.delta(np.array([20.0]))[0] >= curve.delta(20.0) > 0.0

"""What payments cost: replayed exactly, and in closed form for moduli √(κδ² + h)."""

import math
from fractions import Fraction


def replay(c, s, sigma, payments, start=0.0, unit=1.0, tau=0, number=Fraction):
    """(distance at the end, cost) of payments from a distance before step τ, in rationals, or in mpmath's
    numbers for long runs. A block pays qσ_k²W_k, W_k up to the block's end."""
    c, s, sigma = ([number(float(x)) for x in column] for column in (c, s, sigma))
    pay, cost, begin = [number(0)] * len(c), number(0), payments.first
    for end, per_unit in zip(payments.ends.tolist(), payments.q.tolist(), strict=True):
        w, q = number(1), number(per_unit) / number(unit)
        for k in range(end, begin - 1, -1):
            pay[k] = q * sigma[k] ** 2 * w
            cost += (q * sigma[k] * w) ** 2
            w *= c[k]
        begin = end + 1
    assert not any(pay[:tau])
    z = number(float(start))
    for k in range(tau, len(c)):
        z = max(number(0), c[k] * z + s[k] - pay[k])
    return z, cost


def theorem_3_4(kappa, h, sigma, distance):
    """Bravo, Flores-Mella, Guzmán, Thm 3.4: D²·Πκ/S_0 + Σ h_k·Π_{l>k}κ_l/S_k, as printed, with
    S_k = Σ_{j≥k} σ_j²·Π_{l>j}κ_l."""
    cost, after, weight = 0.0, 1.0, 0.0
    for k in reversed(range(len(kappa))):
        weight += sigma[k] ** 2 * after
        if h[k] * after:
            cost += math.inf if weight == 0.0 else h[k] * after / weight
        after *= kappa[k]
    if distance * after:
        cost += math.inf if weight == 0.0 else distance**2 * after / weight
    return cost


def least(kappa, h, sigma, diameter, start):
    """Over all windows: from the start before the first step, or from the diameter before a later one."""
    t = len(kappa)
    starts = [(0, start)] + ([(k, diameter) for k in range(1, t)] if diameter < math.inf else [])
    return min(
        theorem_3_4(kappa[k:e], h[k:e], sigma[k:e], z)
        for k, z in starts
        for e in range(k + 1, t + 1)
    )

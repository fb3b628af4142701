"""What payments cost in closed form for moduli √(κδ² + h)."""

import math


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

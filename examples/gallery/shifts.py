"""How a certificate pays: the distance between two runs, and what is hidden of it in every step."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import pabi

RUN = pabi.NoisySGD(
    pabi.Loss.convex(0.25, gradient_bound=1.0, l2=0.1),
    n=10_000,
    batches=pabi.Cyclic(size=1_000),
    epochs=5,
    step_size=0.5,
    noise_std=0.005,
    cooldown_steps=6,
)


def payments() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each step that the certificate pays for: distance after it, payment, push by the record.

    A block of steps pays at one rate: payments are proportional to σ²·(product of the later slopes).
    """
    (case,) = RUN.guarantee(delta=1e-5).certificate.payload["cases"]
    distances, paid, pushes = [], [], []
    for block in case["blocks"]:
        steps = [
            (c, s, sigma)
            for times, stretches in block["groups"]
            for _ in range(times)
            for n, c, s, sigma in stretches
            for _ in range(n)
        ] * block["times"]
        slope, push, sigma = (np.array(column) for column in zip(*steps, strict=True))
        later = np.append(np.cumprod(slope[:0:-1])[::-1], 1.0)
        rate = np.sum(later * push) / np.sum((later * sigma) ** 2)
        distance = 0.0
        for c, s, a in zip(slope, push, rate * sigma**2 * later, strict=True):
            distance = c * distance + s - a
            distances.append(distance)
            paid.append(a)
            pushes.append(s)
    return np.array(distances), np.array(paid), np.array(pushes)


def draw() -> Figure:
    colours = pabi.plotting.palette()
    distance, paid, push = (1e3 * column for column in payments())
    steps = np.arange(len(paid)) - len(paid) + RUN.steps + 1
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(7.2, 5.6), height_ratios=[3, 2]
    )
    above.set_title("Contraction shrinks the distance, noise hides the rest")
    above.plot(steps, distance, "o-", color=colours.ours, markersize=4)
    below.bar(steps, paid, color=colours.other)
    for k in np.flatnonzero(push):
        above.axvline(steps[k], color=colours.neutral, linestyle=colours.lines[2], linewidth=1.4)
    above.text(steps[10] + 0.5, 1.55, "the record\nis used", color=colours.neutral)
    above.text(steps[-1] + 0.8, 0.05, "no distance\nis left", color=colours.ours)
    note = "hidden mostly late, when\ncontraction has done its part"
    below.text(steps[0], 0.6 * paid.max(), note, color=colours.other)
    above.set(ylabel="distance (10⁻³)", ylim=(0, 1.9), xlim=(8, 66))
    below.set(xlabel="step, of 56", ylabel="hidden (10⁻³)")
    return figure

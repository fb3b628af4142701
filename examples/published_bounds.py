"""Draws docs/figures/published-bounds.svg: what the literature says of clipped, cyclic, nonconvex training.

python examples/published_bounds.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import pabi
import pabi.literature

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "published-bounds.svg"


def main() -> None:
    run = pabi.NoisySGD(
        pabi.Loss.weakly_convex(weak_convexity=0.01, smoothness=1.0),
        n=1_000,
        batches=pabi.Cyclic(size=100),
        epochs=100,
        step_size=0.05,
        noise_multiplier=10.0,
        clip_norm=1.0,
        prox=pabi.prox.l1(0.001),
    )
    comparison = pabi.literature.compare(run, delta=1e-5)
    print(comparison)
    axes = comparison.plot()
    axes.figure.savefig(FIGURE, bbox_inches="tight", metadata={"Date": None})
    print(f"wrote {FIGURE.name}")


if __name__ == "__main__":
    main()

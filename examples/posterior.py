"""A private posterior whose potential is neither smooth nor strongly convex.

Linear observations b = Ax + noise, and a prior that prefers few changes between neighbouring coefficients:

    posterior(x) ∝ exp(−‖Ax − b‖² − ‖Bx‖_{q}^{q}),    q = p + 1 = 3/2, on the ball ‖x‖ ≤ r,

the example of Bravo, Flores-Mella, Guzmán, §4. The prior's gradient is p-Hölder and not Lipschitz, so that
a Langevin step may push two near points apart; its modulus √(δ² + h) says how far. The example describes
the chain, says how far it is from the posterior and what its release costs, runs it, and draws what came out.

So sharp a posterior is reached long before a chain could have crossed the ball, and only then does it pay
to hide the path: the whole path costs what its last iterate does, and brings its diagnostics.

    python examples/posterior.py [--out FOLDER]

Half a minute; pictures go to FOLDER, by default a temporary one.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from rich.console import Console
from rich.table import Table

import pabi
from pabi.mixing import outlook
from pabi.sampling import langevin
from pabi.showing import exact, shown

DELTA = 1e-6
RECORDS, RADIUS = 60_000, 1.0
P = 0.5  # the Hölder exponent; q = p + 1
TRUTH = np.array([0.5, 0.5, 0.5, -0.3, -0.3])
D = len(TRUTH)
CHANGES = 40.0 * (np.eye(D)[1:] - np.eye(D)[:-1])  # B: weighted differences of neighbours

FEATURE_NORM, TARGET_BOUND = 1.0, 2.0  # ‖a_i‖ ≤ 1 and |b_i| ≤ 2, enforced below
STEP_SIZE, STEPS = 8e-7, 6_000  # of a path
ENOUGH, CHAINS = 800, 20  # steps after which one draw is taken, of so many chains


def observations() -> tuple[np.ndarray, np.ndarray]:
    """A and b, made up; a person's row is brought within the public bounds by itself."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(RECORDS, D))
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1, keepdims=True))
    b = np.clip(A @ TRUTH + rng.normal(scale=0.5**0.5, size=RECORDS), -TARGET_BOUND, TARGET_BOUND)
    return A, b


def describe(release: str, steps: int, chains: int) -> pabi.LangevinChain:
    """The chain, from public numbers alone.

    One record's loss is (a·x − b)² + ‖Bx‖_q^q/n, and β = n. On the ball residuals are at most t = Rr + 2.
    Continued linearly beyond, squares are convex on all of ℝ^d, with a gradient that is 2R²-Lipschitz and
    of norm at most 2Rt, hence p-Hölder with constant (2R²)^p(4Rt)^(1−p). That of ‖Bx‖_q^q is p-Hölder with
    constant q·2^(1−p)·k^((1−p)/2)·‖B‖^q, B having k rows.
    """
    q, rows = P + 1.0, len(CHANGES)
    residual = FEATURE_NORM * RADIUS + TARGET_BOUND
    data = (2.0 * FEATURE_NORM**2) ** P * (4.0 * FEATURE_NORM * residual) ** (1.0 - P)
    norm = float(np.linalg.norm(CHANGES, 2))
    prior = q * 2.0 ** (1.0 - P) * rows ** ((1.0 - P) / 2.0) * norm**q
    return pabi.LangevinChain(
        pabi.Loss.weakly_smooth(pairs=[(P, 1.0001 * (data + prior / RECORDS))]),
        n=RECORDS,
        inverse_temperature=float(RECORDS),
        step_size=STEP_SIZE,
        steps=steps,
        # The prior is public: only the squares differ between adjacent data sets.
        gradient_gap=2.0 * (2.0 * FEATURE_NORM * residual) / RECORDS,
        prox=pabi.prox.ball(RADIUS),
        chains=chains,
        release=release,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the pictures go")
    out = parser.parse_args().out or Path(tempfile.mkdtemp(prefix="posterior-"))
    out.mkdir(parents=True, exist_ok=True)
    A, b = observations()
    gram, moment = A.T @ A / RECORDS, A.T @ b / RECORDS

    def gradient(x: np.ndarray) -> np.ndarray:
        """∇L at every chain's point, (chains, d)."""
        changes = x @ CHANGES.T
        prior = (P + 1.0) * np.abs(changes) ** P * np.sign(changes) @ CHANGES
        return 2.0 * (x @ gram - moment) + prior / RECORDS

    start = np.zeros(D)
    # Convexity alone proves little. Rows of length 1 in all directions alike would curve the squares by 2/D,
    # and the penalty adds to it.
    console = Console(highlight=False, soft_wrap=True)
    near = outlook(describe("last", ENOUGH, CHAINS), curvature=1.0 / D, delta=DELTA)
    console.print(str(near))
    warnings.simplefilter("ignore", pabi.SamplingWarning)
    last = langevin(describe("last", ENOUGH, CHAINS), gradient, start, delta=DELTA)
    path = langevin(describe("path", STEPS, 2), gradient, start, delta=DELTA)

    table = Table(title=f"What is released, at δ = {exact(DELTA)}")
    for column in ("release", "draws", "ε", "by"):
        table.add_column(column)
    rows = (
        (
            f"the path of one chain, {STEPS:,} steps",
            describe("path", STEPS, 1).guarantee(DELTA),
            STEPS,
        ),
        ("its last iterate alone", describe("last", STEPS, 1).guarantee(DELTA), 1),
        ("the paths of two chains", path.guarantee, 2 * STEPS),
        (f"last iterates of {CHAINS} chains, {ENOUGH} steps", last.guarantee, CHAINS),
    )
    for name, cost, count in rows:
        table.add_row(name, f"{count:,}", shown(cost.epsilon(DELTA), decimals=3), cost.method)
    console.print(table)
    both = pabi.compose(last.guarantee, path.guarantee)
    console.print(f"The last two, both released: ε = {shown(both.epsilon(DELTA), decimals=3)}.")
    warm = ENOUGH
    console.print(f"The paths after {warm} steps: {path.diagnostics(warm)}.")

    for name, axes in (
        ("last.png", last.plot()),
        ("path.png", path.plot(discard=warm)),
    ):
        axes.ravel()[0].figure.savefig(out / name, dpi=120)
        console.print(f"Picture: {out / name}")


if __name__ == "__main__":
    main()

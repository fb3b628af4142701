"""Speed and memory of the scattering features, beside their goal.

    OMP_NUM_THREADS=1 python benchmarks/features.py [--images N]

Random images of MNIST's size, as bytes; what they show does not matter. Seconds are of processor time, of
the fastest of three turns. The peak of memory is that of the process beyond what it held with the images and
the space for their features.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from pabi.features import Scattering
from pabi.showing import plain

SIDE, TURNS, OF_MNIST = 28, 3, 60_000


def peak_mb() -> float:
    """The largest resident memory so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def seconds(transformer: Scattering, images: np.ndarray) -> float:
    begin = time.process_time()
    transformer.transform(images)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=5_000, help="how many are transformed a turn")
    count = parser.parse_args().images
    images = np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE), dtype=np.uint8)
    transformer = Scattering((SIDE, SIDE), scale=255.0)
    width = len(transformer.get_feature_names_out())
    np.ones((count, width), np.float32)  # released at once, and its peak stays
    before = peak_mb()
    times = [seconds(transformer, images) for _ in range(TURNS)]
    each = min(times) / count
    table = Table(title=f"Scattering features, {SIDE} × {SIDE} pixels to {width} features")
    for column in ("what", "measured", "goal"):
        table.add_column(column)
    table.add_row("1 000 images", f"{plain(1_000 * each, 3)} s", "≤ 1 s")
    table.add_row("60 000 images, from these", f"{plain(OF_MNIST * each, 3)} s", "≤ 60 s")
    table.add_row(
        "peak of memory beyond images and features",
        f"{plain(max(0.0, peak_mb() - before), decimals=0)} MB",
        "≤ 200 MB",
    )
    Console().print(table)


if __name__ == "__main__":
    main()

"""A hospital's table: admissions of patients, as a data scientist finds it on the first day.

    python benchmarks/hospital.py hospital.csv [--rows 20000] [--seed 0]

It is drawn, not measured. By default it has 20 000 rows of 5 156 patients, of whom one has 23, and 8 %
positives. A row is an admission. Columns are as untidy as real ones: an id, dates, levels with spaces and
capitals, missing measurements, one typing error. `readmitted` is what a classifier learns: without privacy a
linear model reaches an AUC of .79. `length_of_stay`, in days, is what a regression learns: skewed, at least
.1, mean about 7; a linear model reaches R² = .11.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PATIENTS = 5_156 / 20_000  # a row
MOST = 23  # rows of a patient
WARDS = ("cardiology", "surgery", "internal", "neurology", "oncology", "paediatrics")
ADMISSIONS = ("emergency", "planned", "transfer")


def hospital(rows: int = 20_000, seed: int = 0) -> pd.DataFrame:
    """The table, in a random order of rows; the same for the same seed."""
    rng = np.random.default_rng(seed)
    patient = _patients(rows, rng)
    count = int(patient.max()) + 1
    frail = rng.normal(size=count)[patient]  # what a patient's admissions have in common
    age = np.clip(62 + 14 * rng.normal(size=count)[patient] + 3 * frail, 18, 99).round()
    female = rng.random(count)[patient] < 0.52
    admission = rng.choice(3, size=rows, p=(0.55, 0.35, 0.1))
    ward = rng.choice(6, size=rows, p=(0.22, 0.2, 0.28, 0.12, 0.12, 0.06))
    earlier = rng.poisson(np.exp(0.2 + 0.5 * frail))
    creatinine = _to(0.01, np.exp(0.05 + 0.25 * frail + 0.3 * rng.normal(size=rows)))
    haemoglobin = _to(0.1, np.clip(13.2 - 0.6 * frail + 1.5 * rng.normal(size=rows), 4, 20))
    sodium = np.clip(139 - 0.7 * frail + 3 * rng.normal(size=rows), 110, 165).round()
    pressure = np.clip(130 + 18 * rng.normal(size=rows), 70, 230).round()
    medicines = rng.poisson(np.exp(1.4 + 0.3 * frail + 0.004 * (age - 60)))
    risk = (
        -3.75
        + 0.042 * (age - 62)
        + 0.24 * np.minimum(earlier, 8)
        + 0.85 * (admission == 0)
        - 0.4 * (ward == 1)
        + 0.7 * (ward == 4)
        + 0.8 * np.log(creatinine)
        - 0.21 * (haemoglobin - 13)
        + 0.075 * (medicines - 4)
        - 0.03 * (sodium - 139)
    )
    readmitted = rng.random(rows) < 1 / (1 + np.exp(-risk))
    scale = (
        4.2
        + 0.06 * (age - 62)
        + 1.6 * (admission == 0)
        + 2.0 * (ward == 4)
        + 1.5 * np.log(creatinine)
        + 0.25 * np.minimum(medicines, 15)
        + 0.35 * np.minimum(earlier, 8)
    ).clip(1)
    stay = _to(0.1, np.maximum(scale * rng.gamma(1.8, 1 / 1.8, size=rows), 0.1))
    day = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 3 * 365, rows), unit="D")
    table = {
        "patient_id": np.char.add("P", (100_000 + patient).astype(str)),
        "admitted": day.strftime("%Y-%m-%d"),
        "age": age.astype(int),
        "sex": np.where(female, "F", "M"),
        "ward": np.asarray(WARDS)[ward],
        "admission": _untidy(np.asarray(ADMISSIONS)[admission], rng),
        "earlier_admissions": earlier,
        "creatinine": _missing(creatinine, 0.08, rng),
        "haemoglobin": _missing(haemoglobin, 0.05, rng),
        "sodium": _missing(sodium, 0.05, rng),
        "blood_pressure": _missing(np.where(np.arange(rows) == 17, 13000.0, pressure), 0.02, rng),
        "medicines": medicines,
        "length_of_stay": stay,
        "readmitted": np.where(readmitted, "yes", "no"),
    }
    return pd.DataFrame(table)


def _patients(rows: int, rng: np.random.Generator) -> Any:
    """The patient of each row: each has one at least, the first has 23, others at most twelve."""
    count = max(round(rows * PATIENTS), -(-rows // MOST))
    weights = rng.gamma(1.2, size=count)
    left = rows - count
    extra = np.zeros(count, int)
    extra[0] = min(MOST - 1, left)
    left -= extra[0]
    while left:
        drawn = np.bincount(
            rng.choice(count, size=left, p=weights / weights.sum()), minlength=count
        )
        room = np.minimum(drawn, MOST // 2 - extra).clip(min=0)
        room[0] = 0
        extra += room
        left -= int(room.sum())
    return rng.permutation(np.repeat(np.arange(count), 1 + extra))


def _untidy(levels: Any, rng: np.random.Generator) -> Any:
    """A few levels with another case or spaces around them, as several clerks write them."""
    dice = rng.random(len(levels))
    levels = np.where(dice < 0.02, np.char.capitalize(levels), levels)
    return np.where((dice > 0.01) & (dice < 0.03), np.char.add(levels, " "), levels)


def _to(unit: float, values: Any) -> Any:
    """Values to whole tenths or hundredths, as they are written down."""
    return np.rint(values / unit) / np.rint(1.0 / unit)


def _missing(values: Any, share: float, rng: np.random.Generator) -> Any:
    return np.where(rng.random(len(values)) < share, np.nan, values)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", type=Path, help="where the table is written (CSV)")
    parser.add_argument("--rows", type=float, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    hospital(int(options.rows), options.seed).to_csv(options.file, index=False)


if __name__ == "__main__":
    main()

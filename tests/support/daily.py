"""Which costly cases are tried today: a share of them, chosen by a seed that changes every day.

What a case takes was measured, and stands in `seconds.json`. A case above the ceiling of one second is tried
one day in so many that it costs a quarter of a second a day; all are tried in `make nightly`.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import zlib
from pathlib import Path

_SEED = "PABI_TESTS_OF"  # the workers' as well, even if midnight passes between them
_SHARE = 0.25  # of a second, what a costly case may cost a day
SECONDS: dict[str, float] = json.loads(Path(__file__).with_name("seconds.json").read_text("utf-8"))


def seed() -> str:
    """Today's date, or what the environment says, so that a day can be tried again."""
    return os.environ.setdefault(_SEED, datetime.date.today().isoformat())


def has_its_day(case: str, one_in: int) -> bool:
    """Whether a case is among those of today, of which there is one in so many."""
    return zlib.crc32(f"{seed()} {case}".encode()) % one_in == 0


def one_in(nodeid: str) -> int:
    """On one of how many days a case is tried: 1 of those that take no second."""
    return math.ceil(SECONDS[nodeid] / _SHARE) if nodeid in SECONDS else 1

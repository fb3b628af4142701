"""Which costly cases are tried today: a share of them, chosen by a seed that changes every day.

What a case takes of the processor was measured, and stands in `seconds.json`: a run with
`PABI_TESTS_SECONDS=folder` writes what its cases took there, and `python -m support.daily folder`, run in
`tests`, puts it in its place. A case above the ceiling is tried one day in so many that it costs no more than
a share of a second a day; one marked nightly, of which there are thousands, still less often.
"""

import datetime
import json
import math
import os
import sys
import zlib
from pathlib import Path

_SEED = "PABI_TESTS_OF"  # the workers' as well, even if midnight passes between them
_CEILING = 0.1  # seconds
_AT_NIGHT = 10.0  # seconds, at least, that a case marked nightly is taken to cost
_SHARE, _SHARE_AT_NIGHT = 0.03, 0.005  # of a second, what a costly case may cost a day
TABLE = Path(__file__).with_name("seconds.json")
SECONDS: dict[str, float] = json.loads(TABLE.read_text("utf-8"))


def seed() -> str:
    """Today's date, or what the environment says, so that a day can be tried again."""
    return os.environ.setdefault(_SEED, datetime.date.today().isoformat())


def of_today(what: str) -> int:
    """A number of the day."""
    return zlib.crc32(f"{seed()} {what}".encode())


def has_its_day(case: str, one_in: int) -> bool:
    """Whether a case is among those of today, of which there is one in so many."""
    return of_today(case) % one_in == 0


def one_in(nodeid: str, marked: bool) -> int:
    """On one of how many days a case is tried, which may be `marked` nightly."""
    if marked:
        return math.ceil(max(SECONDS.get(nodeid, 0.0), _AT_NIGHT) / _SHARE_AT_NIGHT)
    return math.ceil(SECONDS.get(nodeid, 0.0) / _SHARE) or 1


def measured(folder: Path) -> dict[str, float]:
    """What cases took, from what the processes of a run wrote."""
    took: dict[str, float] = {}
    for path in folder.glob("*.tsv"):
        for line in path.read_text("utf-8").splitlines():
            nodeid, seconds = line.rsplit("\t", 1)
            took[nodeid] = max(float(seconds), took.get(nodeid, 0.0))
    return took


if __name__ == "__main__":
    every = sorted((SECONDS | measured(Path(sys.argv[1]))).items())
    # Rounded first, so that what stands in the table stays there when others are measured.
    above = {nodeid: took for nodeid, x in every if (took := round(x, 1)) >= _CEILING}
    TABLE.write_text(json.dumps(above, indent=0, ensure_ascii=False) + "\n", "utf-8")

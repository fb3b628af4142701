"""Many mutations of the files of one reader, in a process of its own whose memory is measured.

`python -m support.fuzzing.running TARGET BEGIN END [SECONDS]`, run in `tests`, tries those of these seeds, as
far as there is time, and prints what came of them as JSON.
"""

import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable

from support.falsification.hostile_files import megabytes
from support.fuzzing.mutations import mutated
from support.fuzzing.targets import TARGETS, answer

MOST_SECONDS, MOST_MEGABYTES = 10.0, 1024.0


def tried(name: str, seeds: Iterable[int], seconds: float = float("inf")) -> dict:
    """What came of the mutations of these seeds: counts, what was wrong, the slowest, megabytes."""
    target, honest = TARGETS[name], TARGETS[name].seeds()
    counted, wrong, slowest = Counter(), [], (0.0, -1)
    until = time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > until:
            break
        data, begin, most = mutated(honest, seed), time.process_time(), megabytes()
        print(f"{name} {seed}", file=sys.stderr)  # the last line says what ended the process
        try:
            counted[answer(target, data)] += 1
        except Exception:  # of whatever kind: that is what is looked for
            counted["wrong"] += 1
            wrong.append(f"seed {seed}: {traceback.format_exc(limit=-3)}")
        slowest = max(slowest, (time.process_time() - begin, seed))
        if megabytes() > MOST_MEGABYTES >= most:
            wrong.append(f"seed {seed}: {megabytes():.0f} MB")
    return {"counted": counted, "wrong": wrong, "slowest": slowest, "megabytes": megabytes()}


if __name__ == "__main__":
    which, first, last, *limit = sys.argv[1:]
    print(json.dumps(tried(which, range(int(first), int(last)), *map(float, limit))))

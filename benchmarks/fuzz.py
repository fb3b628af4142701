"""Coverage-guided fuzzing of whatever reads files, with atheris where it is installed.

`python benchmarks/fuzz.py TARGET [--seconds 60]`, with `PYTHONPATH=tests`. Without atheris (a package of its
own, `pip install atheris`) the same readers get mutations of honest files, as the tests give them at night.
What is found is written to `crash-*` in the current folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Read the options, and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    try:
        import atheris
    except ImportError:
        from support.fuzzing.running import tried

        outcome = tried(options.target, range(1 << 60), options.seconds)
        print(json.dumps(outcome, indent=1))
        sys.exit(bool(outcome["wrong"]))
    guided(atheris, options.target, options.seconds)


def guided(atheris, name: str, seconds: int) -> None:
    """libFuzzer's loop over one reader; it ends the process."""
    with atheris.instrument_imports(include=["pabi", "skops", "tomllib"]):
        from support.fuzzing.running import MOST_MEGABYTES, MOST_SECONDS
        from support.fuzzing.targets import TARGETS, answer
    target = TARGETS[name]
    folder = Path(tempfile.mkdtemp(prefix="pabi-fuzz-"))
    for i, data in enumerate(target.seeds()):
        (folder / str(i)).write_bytes(data)
    limits = [f"-timeout={int(MOST_SECONDS)}", f"-rss_limit_mb={int(MOST_MEGABYTES)}"]
    arguments = [sys.argv[0], str(folder), *limits, f"-max_total_time={seconds}", "-max_len=65536"]
    atheris.Setup(arguments, lambda data: answer(target, data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""Coverage-guided fuzzing of whatever reads files, with atheris where it is installed.

`python benchmarks/fuzz.py [TARGET …] [--seconds 60] [--folder .fuzz]`, with `PYTHONPATH=tests`, gives each
reader so many seconds in a process of its own, and prints a row of each: executions, branches that honest
files cover, branches that were covered in the end, and what was found. Without atheris (a package of its
own, `pip install atheris`) nothing guides the same mutations, and no branches are counted.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LOADED = ("pabi", "skops", "tomllib", "zipfile")  # packages whose branches guide what is tried
MUTATED = 2  # every so many inputs are mutated by libFuzzer alone, the others by tokens and lines


def main() -> int:
    """Fuzz the readers, or one in this process; 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help="names of readers; all by default")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"), help="for logs and findings")
    parser.add_argument("--here", action="store_true", help="one reader, in this process")
    options = parser.parse_args()
    if options.here:
        return alone(options.targets[0], options.seconds)
    return int(any(list(rows(options))))


def rows(options: argparse.Namespace) -> Iterator[bool]:
    """Prints a row of each reader, and says whether something was found."""
    from pabi.showing import plain
    from support.fuzzing.targets import TARGETS

    print("| reader | executions | covered by honest files | covered | found |")
    print("|---|---|---|---|---|", flush=True)
    options.folder.mkdir(exist_ok=True)
    for name in options.targets or TARGETS:
        log = options.folder / f"{name.replace(' ', '-')}.log"
        own = [sys.executable, str(Path(__file__).resolve()), name, "--here"]
        with log.open("w") as out:
            status = subprocess.run(
                [*own, "--seconds", str(options.seconds)],
                cwd=options.folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        numbers = [plain(n, 9) if n is not None else "–" for n in counts(log.read_text("utf-8"))]
        found = f"exit status {status}, see {log}" if status else "nothing"
        print(f"| {name} | {' | '.join(numbers)} | {found} |", flush=True)
        yield status != 0


def counts(log: str) -> tuple[int | None, int | None, int | None]:
    """Executions, branches covered by what was honest, and in the end, as libFuzzer's log has them."""
    told = re.findall(r"^#(\d+)\s+(\w+)\s+cov: (\d+)", log, re.MULTILINE)
    if told:
        begin = next((int(covered) for _, what, covered in told if what == "INITED"), None)
        return int(told[-1][0]), begin, int(told[-1][2])
    outcome = re.search(r'^\{\n "counted".*?^\}', log, re.MULTILINE | re.DOTALL)
    return sum(json.loads(outcome[0])["counted"].values()) if outcome else None, None, None


def alone(name: str, seconds: int) -> int:
    """Fuzz one reader in this process; not 0 if something was found."""
    try:
        import atheris
    except ImportError:
        from support.fuzzing.running import tried

        outcome = tried(name, range(1 << 60), seconds)
        print(json.dumps(outcome, indent=1))
        return int(bool(outcome["wrong"]))
    return guided(atheris, name, seconds)


def guided(atheris, name: str, seconds: int) -> int:
    """libFuzzer's loop over one reader; it ends the process."""
    with atheris.instrument_imports(include=LOADED):
        from support.fuzzing.running import MOST_MEGABYTES, MOST_SECONDS
        from support.fuzzing.targets import TARGETS, Wrong, answer

        target = TARGETS[name]
        honest = target.seeds()
        for data in honest:
            answer(target, data)  # imports the last of what reads
    folder = Path(tempfile.mkdtemp(prefix="pabi-fuzz-"))
    for i, data in enumerate(honest):
        (folder / str(i)).write_bytes(data)

    def one(data: bytes) -> None:
        begin = time.process_time()
        answer(target, data)
        if time.process_time() - begin > MOST_SECONDS:
            raise Wrong(f"took more than {MOST_SECONDS} s")

    # libFuzzer's clock goes on while others have the processor: it stops only what would never end.
    limits = [f"-timeout={10 * int(MOST_SECONDS)}", f"-rss_limit_mb={int(MOST_MEGABYTES)}"]
    arguments = [sys.argv[0], str(folder), *limits, f"-max_total_time={seconds}", "-max_len=65536"]
    atheris.Setup(arguments, one, custom_mutator=mutator(atheris, honest))
    atheris.Fuzz()
    return 0


def mutator(atheris, honest: tuple[bytes, ...]) -> Callable[[bytes, int, int], bytes]:
    """libFuzzer's own mutations of bytes, and those that know tokens and lines, in turn."""
    from support.fuzzing.mutations import mutated

    def change(data: bytes, most: int, seed: int) -> bytes:
        if seed % MUTATED == 0:
            return atheris.Mutate(data, most)
        return mutated((bytes(data), *honest) if seed % 3 == 0 else (bytes(data),), seed)[:most]

    return change


if __name__ == "__main__":
    sys.exit(main())

"""What may happen to a file at any moment: its writer is killed, or a bit of it changes."""

import os
import signal
from collections.abc import Callable

from hypothesis import Phase, settings

from pabi.execute import checkpoint

# Machines with a planted mistake: what they find need not be made small.
ONCE = settings(max_examples=30, deadline=None, database=None, phases=[Phase.generate])


def killed_at(call: str, after: int, work: Callable[[], object]) -> None:
    """Does this in a process that is killed at a call of the system that writes secret files."""
    process = os.fork()
    if process == 0:
        try:
            original, left = getattr(checkpoint.os, call), [after]

            def deadly(*arguments, **options):
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                return original(*arguments, **options)

            setattr(checkpoint.os, call, deadly)
            work()
        finally:
            os._exit(0)
    os.waitpid(process, 0)


def with_a_bit_changed(whole: bytes, place: float, bit: int) -> bytes:
    at = int(place * len(whole))
    return whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]

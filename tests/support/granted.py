"""What the kernel makes of one analysis of a description."""

from collections.abc import Callable
from typing import Any

from pabi.tradeoff.guarantee import Guarantee
from pabi.verification.granting import Proposal, grant


def granted(
    apply: Callable[..., Proposal], description: Any, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of an analysis. Raises NotApplicable as that does, and Refused."""
    return grant(description, apply(description, delta, position), position)

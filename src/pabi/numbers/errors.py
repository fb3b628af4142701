"""What can go wrong, in one line each."""

from __future__ import annotations


class InvalidInput(ValueError):
    """An argument or a field of a file is wrong; the message names it, its value and what was expected.

    Attributes
    ----------
    field : str
        The name of the argument or field.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, str]]:
        """For pools of workers, which pass errors on by pickling them."""
        return type(self), (self.field, str(self).removeprefix(f"{self.field}: "))


class NotApplicable(Exception):
    """An analysis does not cover this run; the message is the reason.

    Attributes
    ----------
    reason : str
        The message.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TargetUnreachable(ValueError):
    """No value of the calibrated parameter meets the target.

    Attributes
    ----------
    best : float
        The least ε that was reached.
    """

    def __init__(self, message: str, best: float) -> None:
        super().__init__(message)
        self.best = best

    def __reduce__(self) -> tuple[type[TargetUnreachable], tuple[str, float]]:
        """For pools of workers, which pass errors on by pickling them."""
        return type(self), (str(self), self.best)


class BudgetExceeded(ValueError):
    """A ledger has less left than a release would spend; nothing was entered, and nothing may be released.

    Attributes
    ----------
    needed : float
        What the release would spend, in the unit of the ledger: μ, or a Rényi divergence in nats.
    left : float
        What is left, in the same unit.
    """

    def __init__(self, message: str, needed: float, left: float) -> None:
        super().__init__(message)
        self.needed = needed
        self.left = left

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[str, float, float]]:
        """For pools of workers, which pass errors on by pickling them."""
        return type(self), (str(self), self.needed, self.left)


class PrivacyWarning(UserWarning):
    """A guarantee that holds and yet may protect less than its reader believes."""

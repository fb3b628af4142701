from pabi.numbers.showing import __doc__, accuracy, as_printed, exact, plain, shown, shown_down

__all__ = ["__doc__", "accuracy", "as_printed", "exact", "plain", "shown", "shown_down"]

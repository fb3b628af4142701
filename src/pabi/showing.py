"""Numbers as text, rounded to the safe side. The full text is that of `pabi.numbers.showing`."""

from pabi.numbers.showing import __doc__ as __doc__
from pabi.numbers.showing import accuracy, as_printed, exact, plain, shown, shown_down

__all__ = ["accuracy", "as_printed", "exact", "plain", "shown", "shown_down"]

from pabi.numbers.showing import __doc__ as __doc__
from pabi.numbers.showing import accuracy, as_printed, exact, plain, shown, shown_down

__all__ = ["accuracy", "as_printed", "exact", "plain", "shown", "shown_down"]

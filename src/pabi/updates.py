"""Updates: what a step makes of its noisy gradient. The full text is that of `pabi.describe.updates`."""

from pabi.describe.updates import SGD, Adam, Momentum, Other, Update
from pabi.describe.updates import __doc__ as __doc__

__all__ = ["SGD", "Adam", "Momentum", "Other", "Update"]

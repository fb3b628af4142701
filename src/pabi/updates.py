from pabi.describe.updates import SGD, Adam, Momentum, Other, Update
from pabi.describe.updates import __doc__ as __doc__

__all__ = ["SGD", "Adam", "Momentum", "Other", "Update"]

from pabi.describe.updates import SGD, Adam, Momentum, Other, State, Update, __doc__

__all__ = ["SGD", "Adam", "Momentum", "Other", "State", "Update", "__doc__"]

"""Training that executes exactly the run that was accounted.

Nothing but numpy is imported here: scipy and randomgen load when they are first used.
"""

from pabi.learn.engine import Trained, train
from pabi.learn.logistic import LogisticGradients, bound_rows, with_intercept

__all__ = ["LogisticGradients", "Trained", "bound_rows", "train", "with_intercept"]

"""Private searches whose trials a cluster's workers make.

How many trials there are is a secret of the search, and a cluster knows it: its dashboards count tasks. The
theorem speaks of what is released and not of where it was computed, so that a trusted cluster is enough.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from pabi.integrations.dask.tasks import Cluster
from pabi.learn.search import PrivateSearchCV, fit_on
from pabi.numbers.errors import InvalidInput

_SIGHT = "records, hidden iterates, and all trials of the search, their number, scores and times among it"


def fit_search(
    search: PrivateSearchCV,
    X: ArrayLike,
    y: ArrayLike,
    *,
    client: Any,
    X_public: ArrayLike | None = None,
    y_public: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> PrivateSearchCV:
    """The search, fitted as `search.fit` does, its trials made on a cluster's workers.

    This process draws the number of trials, and of every trial the setting and a key of 256 bits, from which
    all of its randomness follows. Every trial is a task, a few for each thread of the cluster at a time. A
    trial whose worker is lost is made again as it was. The best is kept, and workers forget every trial once
    it was compared.

    Parameters
    ----------
    search : PrivateSearchCV
        What to search. A ledger of its own is charged once, here, before any trial.
    X, y, X_public, y_public, groups
        As of `PrivateSearchCV.fit`, in memory. They travel to the workers.
    client : distributed.Client
        The cluster. Its workers have the same pabi.

    Returns
    -------
    PrivateSearchCV
        `search`, with the attributes that `fit` sets. Its guarantee assumes that the cluster keeps to itself
        what it sees: dashboards, metrics and logs of the cluster show how many trials there were, also
        afterwards.

    Raises
    ------
    InvalidInput
        The extra `dask` is not installed. `search` is none. `client` is none, or its workers lack pabi, have
        another version, or compute in different ways. The cluster failed. Anything that `PrivateSearchCV.fit`
        refuses; what other errors of a trial say is not shown. Nothing was released.
    TargetUnreachable, BudgetExceeded
        As of `PrivateSearchCV.fit`.

    Warns
    -----
    PrivacyWarning
        The `random_state` of the search is not None.

    References
    ----------
    docs, "I have a cluster"; docs, "Tune honestly"; docs, "Theory", 17.
    """
    if not isinstance(search, PrivateSearchCV):
        raise InvalidInput("search", f"expected a PrivateSearchCV, got a {type(search).__name__}")
    return fit_on(
        Cluster(client, "trial", _SIGHT),
        search,
        X,
        y,
        X_public=X_public,
        y_public=y_public,
        groups=groups,
    )

"""A transformer that makes features alike in all directions, privately, for pipelines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from pabi.budget.ledger import check_ledger
from pabi.describe.statistics import NoisySecondMoments
from pabi.execute.hiding import Terms
from pabi.execute.large_tables import in_memory
from pabi.execute.randomness import randomness_from
from pabi.execute.records import LARGEST, Records
from pabi.execute.sums import UserRows
from pabi.features.tables import checked, tagged
from pabi.learn.documentation import ONE_FIT, PREPROCESSING, documented
from pabi.learn.pipelines import notes_of
from pabi.learn.plans import planned, released_moments, resolves, resolving, whitening
from pabi.learn.rows import (
    AllOrNothing,
    BoundedRows,
    count_fit,
    fitted_before,
    users_of_rows,
    warn_if_shortened,
)
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, TargetUnreachable
from pabi.numbers.showing import exact, plain, shown


@tagged(transformer_tags__preserves_dtype=[])
@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateWhitener(
    BoundedRows,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Whitens features by noisy second moments, which are released with a proven (ε, δ).

    Rows x, a constant included, become s·(Σ̃₊ + λI)^(−1/2)·x with Σ̃ the noisy mean of x·xᵀ, λ the size of its
    noise and s such that all rows have one norm. It centres as well, since the constant is one of the
    features.

    Parameters
    ----------
    $TARGET
    equal_norms : bool
        Whether every row is scaled to `output_norm`; a row of zeros stays one. If not, only longer rows are
        scaled down to it, and the map is such that the mean square of norms is about half of its square.
    output_norm : float, > 0
        The norm of rows that come out: `feature_norm` of the estimator that follows.
    adjacency : str
        "replace_one" or "zero_out".
    noise_std : float, > 0, optional
        σ of the noise on the sum of x·xᵀ, in place of `epsilon`.
    $ROWS
    users : int or (n,) array-like, optional
        The enrolled users, where `fit` gets `groups`, as of the estimators.

    Attributes
    ----------
    guarantee_ : Guarantee
        What the release of the second moments costs. What is made of them costs nothing more.
    moments_ : NoisySecondMoments
        The release that was accounted and executed.
    preconditioner_ : RowMap
        The map.
    n_features_in_ : int
        d, the columns of X.
    feature_names_in_ : (d,) array
        Their names, where X has names.

    Raises
    ------
    TargetUnreachable
        In `fit`, where ε is so small that noise would hide all second moments there can be; its `best` is the
        ε above which it would not.

    Notes
    -----
    Of more than 4096 columns only the diagonal of Σ̃ is released, and features are scaled one by one; a sparse
    table then stays sparse.

    References
    ----------
    docs, "Private preconditioning".
    """

    equal_norms: bool = True
    output_norm: float = 1.0

    def fit(self, X: ArrayLike, y: Any = None, *, groups: ArrayLike | None = None) -> Self:
        """This transformer, with second moments of the table released.

        Parameters
        ----------
        X : (n, d) array-like, pandas frame, scipy sparse matrix, or LargeTable
            Features, real and finite. What `LargeTable` takes is read in passes; paths need it.
        y : ignored
            For pipelines. Where it names a column of a large table, that is no feature.
        groups : (n,) array-like, optional
            The user of every row, by any id, or the name of a column of a large table. A user contributes the
            mean of x·xᵀ.

        Returns
        -------
        self
            The transformer, with the attributes that end in an underscore.

        Raises
        ------
        InvalidInput
            An argument of the constructor or X is wrong; the error names it. It is a ValueError, as
            scikit-learn's own checks of X raise.
        TargetUnreachable
            ε is so small that noise would hide all second moments there can be; its `best` is the ε above
            which it would not.
        BudgetExceeded
            Less is left in `ledger`; nothing has then been computed from the data.

        Warns
        -----
        UserWarning
            Some row was scaled down or clipped to its range. Whether it was depends on the data.
        PrivacyWarning
            `random_state` is not None. This estimator, or a clone of it, was fitted before and has no
            `ledger`. Each once in a process.
        """
        with AllOrNothing(self):
            check_ledger(self.ledger)
            table = self._large(X, y, groups)
            records = self._records(checked(self, X) if table is None else table)
            groups = in_memory(table, groups, "groups")
            equal = validate.flag("equal_norms", self.equal_norms)
            output = validate.number(
                "output_norm", self.output_norm, at_least=1.0 / LARGEST, at_most=LARGEST
            )
            users, of_users = users_of_rows(groups, self.users, records.n)
            moments = self._moments(records, users)
            around = fitted_before(self, strict=self.strict)
            warn_if_shortened(records)
            terms = Terms(delta=self.delta, random_state=self.random_state, ledger=self.ledger)
            randomness_from(self.random_state)  # warns of a state that is not secret
            cost = moments.guarantee(self.delta)
            with terms.reserved(cost.assuming(PREPROCESSING, *of_users)):
                count_fit(self)
                part = replace(terms, ledger=None, proven=cost)
                one = released_moments(part, moments, records, users)
            self.preconditioner_ = whitening(one.values, moments, norm=output, equal=equal)
            guarantee = one.guarantee.assuming(PREPROCESSING, ONE_FIT, *of_users, *around)
            self.moments_, self.guarantee_ = moments, guarantee
            self._n_features_out = records.width
            self.guarantee_ = guarantee.noting(notes_of(self))
        return self

    def _moments(self, records: Records, users: UserRows | None) -> NoisySecondMoments:
        """The release, which depends on public numbers alone, or an error where noise hides everything."""
        delta = validate.number("delta", self.delta, above=0.0, below=1.0)
        moments = planned(
            records.n if users is None else users.users,
            records.width,
            norm=self._seen_norm(records.d),
            epsilon=validate.number("epsilon", self.epsilon, above=0.0),
            delta=delta,
            adjacency=self.adjacency,
            noise_std=self.noise_std,
            unit="record" if users is None else "user",
        )
        if resolves(moments):
            return moments
        hidden = f"noise hides the second moments of {records.width} columns in {moments.n} {moments.unit}s"
        most = resolving(moments)
        if self.noise_std is not None:
            raise InvalidInput("noise_std", f"{hidden}: expected less than {plain(most)}")
        least = replace(moments, noise_std=most).guarantee(delta).epsilon(delta)
        raise TargetUnreachable(
            f"at epsilon = {exact(self.epsilon)}, delta = {exact(delta)} {hidden}: expected an epsilon above "
            f"{shown(least)}, more rows or fewer columns",
            least,
        )

    def transform(self, X: ArrayLike) -> Any:
        """The rows within the declared bounds, mapped.

        Parameters
        ----------
        X : (m, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Features, real and finite. Of a large table comes a large table, which is made anew in every pass
            over it.

        Returns
        -------
        array or CSR matrix
            (m, d), one column more where the constant is one; sparse where X is and each feature is scaled by
            itself. No row is longer than `output_norm`. Arrays are float32, unless that norm is out of its
            range.

        Raises
        ------
        InvalidInput
            X is not what the transformer was fitted to, or holds what is no number. It is a ValueError, as
            scikit-learn's own checks of X raise.
        NotFittedError
            `fit` was not called before.
        """
        return self._images(X)

    def _image(self, cells: Any) -> Any:
        return self.preconditioner_.table(
            self._records(cells), anywhere=self.moments_.unit == "user"
        )

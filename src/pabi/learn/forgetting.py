"""Estimators that forget records: they keep the secret state of a fit, and go on from it without them."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import clone

from pabi.account.forgetting import refuse_dear
from pabi.budget.ledger import check_ledger, reserved
from pabi.describe.files import to_dict
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute.checkpoint import State
from pabi.execute.computed_steps import rests_on
from pabi.execute.engine import Keep, enforceable, go_on
from pabi.execute.hiding import checked, hides, unseen, walk_of
from pabi.execute.large_records import RowMap
from pabi.execute.large_tables import large_table
from pabi.execute.linear_gradients import LinearGradients
from pabi.execute.records import Records
from pabi.execute.sources import Parts
from pabi.execute.state_files import (
    Keeping,
    StateFile,
    locked,
    named_after,
    noted_name,
    refuse_existing,
    refuse_stale,
    state_in,
    write_state,
)
from pabi.execute.states import (
    DIGEST_KEY_BYTES,
    ForgottenRequest,
    PlannedRequest,
    SecretState,
    digests_of,
    planned_request,
    promised_anew,
    released_by,
    same_rows,
    without,
)
from pabi.learn.coefficients import HasCoefficients
from pabi.learn.pipelines import notes_of
from pabi.learn.plans import ONE_FIT, PREPROCESSING, TrainingPlan, together
from pabi.learn.rows import CheckedRows, checked_rows, filled, take_turn, with_blanks
from pabi.learn.schema import sample_weights, times
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array
from pabi.tradeoff.guarantee import Guarantee

BY_ITSELF = (
    "the model is looked at by itself: no earlier model of the same state was handed out, or whoever has it "
    "has forgotten it"
)
# Settings that say nothing of the gradients.
_FREE = frozenset({"ledger", "verbose", "random_state", "strict", "users"})


class Wanted(NamedTuple):
    """A request: the rows, (ε, δ), the guarantees of other releases, and how it may be met."""

    rows: Any
    target: tuple[float, float]
    besides: Sequence[Guarantee]
    retrain: bool
    accept_loss: bool


class ForgettingModel(HasCoefficients):
    """What an estimator needs to forget; it knows states and requests, not losses."""

    def forget(
        self,
        X: ArrayLike,
        y: ArrayLike,
        rows: ArrayLike,
        epsilon: float,
        delta: float,
        *,
        state: StateFile,
        sample_weight: ArrayLike | None = None,
        besides: Sequence[Guarantee] = (),
        retrain: bool = False,
        accept_loss: bool = False,
    ) -> Self:
        """A new estimator that has forgotten some rows, or users: it is nearly one retrained without them.

        Training goes on from the secret state, in the order that was drawn and with fresh noise, for the
        fewest whole epochs that meet (ε, δ), at least one. The contributions of the rows, and of all that
        were forgotten before, are zero; they are still drawn and counted. The state then is the new one, its
        log one line longer. At any moment the file holds the old state or the new one.

        More steps cost all who stay. Where their ε, at the model's δ, would grow by more than a tenth, this
        is refused unless `accept_loss` says otherwise, and `retrain` is recommended.

        Parameters
        ----------
        X : (n, d) array-like, pandas frame or scipy sparse matrix
            The table of the fit. Rows that are, or were, forgotten may hold anything, also no numbers.
        y : (n,) or (n, K) array-like
            Its labels or targets; likewise.
        rows : (m,) sequence of int, or (n,) of bool
            The rows to forget: their positions in the table, counted from 0, or a mask. What may hold labels,
            such as a pandas Index or Series, is refused. After a fit with `groups` users are forgotten: all
            rows of each, such as the mask `person == 17`.
        epsilon, delta : float, > 0, delta below 1
            What is to be promised of all rows that were forgotten until now.
        state : StateFile
            What `fit(…, keep_state=…)` wrote.
        sample_weight : (n,) array-like, optional
            As in the fit.
        besides : sequence of Guarantee
            Those of other releases that saw these rows and are handed out with the model, such as private
            ranges; under "zero_out". What they cost all forgotten rows together is added.
        retrain : bool
            Whether to train anew, without the rows from the first step on, with noise, order and release for
            preconditioning of its own. The new model has forgotten exactly, and costs those who stay what the
            first one did. It is a release of its own: a `ledger` is charged.
        accept_loss : bool
            Whether to go on although those who stay lose by it.

        Returns
        -------
        estimator
            Of the same settings, fitted. `unlearning_guarantee_` compares it with a retrained one; its notes
            have what the request costs those who stay, under "those_who_stay": ε of the training, of the new
            model alone and of all models that are out then, after going on and after retraining.
            `guarantee_` is what the new model costs those who stay.

        Raises
        ------
        InvalidInput
            Rows that are no positions, out of range or forgotten before, another table or other settings than
            the state's, a state that is not the last one of this model, another version, a wrong key, and
            where those who stay would lose; nothing is changed then.
        BudgetExceeded
            Less is left in `ledger` than retraining costs; nothing is changed.
        TargetUnreachable
            No number of epochs meets ε at δ.
        NotApplicable
            No analysis covers it; so it is where training went on after a cool-down once.

        Warns
        -----
        PrivacyWarning
            δ is large for n records.

        References
        ----------
        docs, "Forget records".
        """
        validate.exactly("state", state, StateFile, "a StateFile")
        check_ledger(self.ledger)
        anew, accepted = (
            validate.flag("retrain", retrain),
            validate.flag("accept_loss", accept_loss),
        )
        require(
            self.ledger is None or anew,
            "ledger",
            "expected None: what two models of one path cost those who stay is not the sum of what each "
            "costs, so that no ledger can add them up; retrain=True makes a release that it can",
        )
        request = Wanted(rows, (epsilon, delta), besides, anew, accepted)
        return unseen(lambda: self._forgotten(X, y, sample_weight, request, state))

    def _forgotten(self, X: Any, y: Any, weights: Any, request: Wanted, state: StateFile) -> Self:
        """What `forget` returns. Locals are secret, so that its caller lets nothing of them be seen."""
        with locked(state):
            held = state_in(state)
            fresh = self._matching(held)
            self._refuse_another(fresh, held)
            numbers = checked_rows(request.rows, held.rows, held.forgotten)
            blank = np.union1d(held.forgotten, numbers)
            plan = _settled(held, held.counted(numbers), request)
            table = fresh._blanked_table(X, y, weights, held, blank, wiped=plan is None)
            require(
                same_rows(held.digests, _digests(table, held.digest_key), blank),
                "X",
                "expected the table of the fit, the rows that are not forgotten as they were, in their order",
            )
            if plan is None:
                return self._retrained(fresh, held, table, numbers, request, state)
            newer = _gone_on(held, plan, fresh._without(table, held, blank), numbers)
            model = fresh._as_of(newer)
            write_state(
                state, newer, held
            )  # last of all: where anything goes wrong, nothing is changed
        return model

    def _retrained(
        self,
        fresh: Self,
        held: SecretState,
        table: CheckedRows,
        numbers: NDArray[np.intp],
        request: Wanted,
        state: StateFile,
    ) -> Self:
        """`fresh`, trained anew without these rows and those that were forgotten before."""
        promised = retrained_for(held, held.counted(numbers), *request.target, request.besides)
        named = named_after(held, self.ledger)
        plan, sentences = fresh._plan_as_of(held), (PREPROCESSING, *held.facts["sentences"])
        cost = plan.guarantee.assuming(*sentences).noting(noted_name(named))
        with reserved(self.ledger, cost, secret=True):
            anew = fresh._trained_anew(held, table, np.union1d(held.forgotten, numbers))
            line = _line(held, numbers, anew.walk.step, promised, True)
            newer = _in_place_of(held, anew, line, named)
            model = fresh._as_of(newer)
            write_state(state, newer, held)
        return model

    def _refuse_another(self, fresh: Self, held: SecretState) -> None:
        """Raises InvalidInput for a state that is not the last one of this model, as far as anything tells:
        the model itself, where it is fitted, and the ledger, where one is kept."""
        refuse_stale(held, self.ledger)
        if not hasattr(self, "coef_"):
            return
        fresh._set_coefficients(_theta(held))
        require(
            np.array_equal(self.coef_, fresh.coef_)
            and np.array_equal(self.intercept_, fresh.intercept_),
            "state",
            "expected that of this model, got one of another model, or an older or newer one of this: "
            "forget with what the last forget returned, or with restored(state)",
        )

    def restored(self, state: StateFile) -> Self:
        """The model as the state has it: that of the fit, or of the last request.

        For a crash between the writing of a state and that of the model. The model is the very one that was
        computed then; it costs nothing more.

        Parameters
        ----------
        state : StateFile
            What `fit(…, keep_state=…)` wrote.

        Returns
        -------
        estimator
            Of the same settings, fitted.

        Raises
        ------
        InvalidInput
            Other settings than the state's, another version, a wrong key, and a state that is not the last
            one, where the `ledger` of the fit tells.

        References
        ----------
        docs, "Forget records".
        """
        validate.exactly("state", state, StateFile, "a StateFile")
        check_ledger(self.ledger)
        return unseen(lambda: self._read_from(state))

    def _read_from(self, state: StateFile) -> Self:
        """What `restored` returns; as of `_forgotten`, its locals are secret."""
        held = state_in(state)
        refuse_stale(held, self.ledger)
        return self._matching(held)._as_of(held)

    # Keeping.

    def _keeping(
        self, keeping: Keeping | None, rows: CheckedRows, sentences: Sequence[str]
    ) -> Keep | None:
        """What keeps the state of a fit, once it is trained."""
        if keeping is None:
            return None
        run, key = self.run_, os.urandom(DIGEST_KEY_BYTES)
        moments, mapped = self.moments_, self.preconditioner_
        facts = {
            "estimator": type(self).__name__,
            "settings": _settings(self),
            "columns": self.n_features_in_,
            "sentences": list(sentences),
            **keeping.facts,
            "features": self._feature_settings(),
            "moments": None if moments is None else to_dict(moments),
            "map": None
            if mapped is None
            else {"unit": mapped.unit, "norm": mapped.norm, "equal": mapped.equal},
        }
        arrays, digests = _public_arrays(self), _digests(rows, key)

        def keep(walk: State, shown: Array) -> None:
            keeping.write(
                SecretState(
                    run=run,
                    walk=walk,
                    start=np.zeros(shown.shape),
                    shown=shown,
                    digests=digests,
                    digest_key=key,
                    facts=facts,
                    arrays=arrays,
                    users=None if rows.groups is None else rows.groups.users_of_rows(),
                )
            )

        return keep

    # Going on, and training anew.

    def _plan_as_of(self, held: SecretState) -> TrainingPlan:
        """The training of the state once more: the same run, and the same release for preconditioning."""
        run, moments, outputs = held.run, held.moments, _theta(held).shape[1]
        plan: TrainingPlan = self._planned(run.n, self.n_features_in_, outputs, run.unit)  # type: ignore[attr-defined]
        costs = tuple(one.guarantee(plan.delta) for one in (moments, run) if one is not None)
        return replace(plan, run=run, moments=moments, costs=costs, linear=self.linear_predictor_)

    def _trained_anew(
        self, held: SecretState, table: CheckedRows, blank: NDArray[np.intp]
    ) -> SecretState:
        """The state of another training, in which these rows have no part. Its noise never follows a seed."""
        rows = table._replace(weights=Parts.of(_wiped(table, blank)))
        states: list[SecretState] = []
        seed, self.random_state = self.random_state, None
        try:
            self._execute(  # type: ignore[attr-defined]
                self._plan_as_of(held), rows, held.facts["sentences"], Keeping(states.append, {})
            )
        finally:
            self.random_state = seed
        return replace(states[0], digests=without(_digests(table, states[0].digest_key), blank))

    def _matching(self, held: SecretState) -> Self:
        """A copy that knows what the fit knew of the table's form. Raises InvalidInput for other settings."""
        require(
            held.facts["estimator"] == type(self).__name__,
            "state",
            f"expected one of a {type(self).__name__}, got {held.facts['estimator']}'s",
        )
        own = _settings(self)
        # Settings that are newer than the state had their default then.
        stated = {**_settings(type(self)()), **held.facts["settings"]}
        for name, value in stated.items():
            # Earlier versions wrote what is like an array as it is shown.
            require(
                value in (own.get(name), repr(getattr(self, name, None))),
                name,
                f"expected {value} as in the state, got {own.get(name)}",
            )
        fresh: Self = clone(self)
        fresh.n_features_in_ = held.facts["columns"]
        for name, array in held.arrays.items():
            if name != "matrix":
                setattr(fresh, name, array.astype(object) if name == "feature_names_in_" else array)
        fresh.moments_, fresh.run_ = held.moments, held.run_after()
        fresh._recall(held.facts.get("features"))
        shape = held.facts["map"]
        fresh.preconditioner_ = None if shape is None else RowMap(held.arrays["matrix"], **shape)
        return fresh

    def _blanked_table(
        self,
        X: Any,
        y: Any,
        weights: Any,
        held: SecretState,
        blank: NDArray[np.intp],
        wiped: bool = False,
    ) -> CheckedRows:
        """The table, zeros in the rows that are forgotten, at least where they are no numbers; `wiped`: in
        all of them."""
        n = held.rows
        require(
            large_table(X) is None,
            "X",
            "expected the table of the fit in memory, got one that is read in passes",
        )
        for name, part in (("X", X), ("y", y)):
            count = np.shape(part)[0] if np.ndim(part) or issparse(part) else 0
            require(
                count == n,
                name,
                f"expected {n} rows as in the fit, forgotten ones may be blank, got {count}",
            )
        labels = getattr(self, "classes_", None)
        rows: Parts = self._read(with_blanks(X, blank, wiped))
        # In place of a blank target.
        fill = 0.0 if labels is None else labels[0]
        seen, own = self._seen_targets(filled(y, blank, fill))
        if weights is not None:
            weights = filled(weights, blank, 0.0)
        stated = sample_weights(weights, self.max_sample_weight, n)
        records = self._records(rows.array)
        return CheckedRows(rows.array, records, seen, times(own, stated), held.groups)

    def _without(
        self, table: CheckedRows, held: SecretState, blank: NDArray[np.intp]
    ) -> LinearGradients:
        """The gradients of the table, zero for the rows that are forgotten."""
        mapped, seen = self.preconditioner_, table.records
        seen = seen if mapped is None else mapped.mapped(seen, anywhere=held.users is not None)
        return self._gradients(seen, table.targets, held.run.loss).weighted(_wiped(table, blank))

    def _as_of(self, held: SecretState) -> Self:
        """This estimator, fitted as the state has it."""
        run, moments = held.run_after(), self.moments_
        before = () if moments is None else (moments.guarantee(self.delta),)
        proven = checked(run.guarantee(self.delta), *walk_of(run, held.start[None]))
        if hides(proven):
            proven = proven.assuming(*rests_on(run, held.start.shape))
        self.guarantee_ = together(*before, proven.assuming(*held.walk.assumed)).assuming(
            PREPROCESSING,
            ONE_FIT,
            *held.facts["sentences"],
            *([BY_ITSELF] if held.requests else []),
        )
        self.run_, self.n_iter_ = run, int(run.steps)
        take_turn(self)
        self._set_coefficients(_theta(held))
        self._note_parameters()
        if held.log:
            self.unlearning_guarantee_ = held.log[-1].guarantee.noting(notes_of(self))
        return self

    # What the estimators know.

    def _feature_settings(self) -> dict[str, Any] | None:
        """What has to be kept, as JSON, of features that a rule chose; None where there are none."""
        return None

    def _recall(self, settings: dict[str, Any] | None) -> None:
        """Chooses what a rule chose when this was kept."""

    def _gradients(self, records: Records, targets: Parts, loss: Loss) -> LinearGradients:
        """The gradients of that loss at rows of at most its norm."""
        raise NotImplementedError

    def _seen_targets(self, y: Any) -> tuple[Parts, Parts | None]:
        """(targets as training sees them, weights of the records)."""
        raise NotImplementedError

    def _set_coefficients(self, theta: Array) -> None:
        raise NotImplementedError

    def _note_parameters(self) -> None:
        """Notes the hash of the parameters, which are final now, in the guarantee."""
        self.guarantee_ = self.guarantee_.noting(notes_of(self))


def refuse_unforgettable(state: Any, run: NoisySGD) -> None:
    """Raises InvalidInput where no state can be kept, or one of whose forgetting nothing is proven."""
    refuse_existing(validate.exactly("keep_state", state, StateFile, "a StateFile"))
    if run.cooldown_steps and np.ndim(run.gradient_noise_std):
        # What all iterates cost those who stay is that of steps in another order then.
        raise InvalidInput("noise_std", "expected one number, with keep_state and a cool-down")
    require(
        run.loss.scalable,
        "keep_state",
        "expected a loss of which less is proven where records are zero",
    )


def planned_for(
    held: SecretState,
    records: int,
    epsilon: float,
    delta: float,
    besides: Sequence[Guarantee] = (),
) -> PlannedRequest:
    """How a request for so many records more is met by going on, the release for preconditioning included.
    Raises as `forget` does."""
    others = (*_of_moments(held, delta), *besides)
    plan = planned_request(held, records, epsilon=epsilon, delta=delta, besides=others)
    proven = enforceable(plan.guarantee, plan.unlearning, held.start)
    sentences = (PREPROCESSING, *held.facts["sentences"], *held.walk.assumed)
    return replace(plan, guarantee=proven.assuming(*sentences))


def retrained_for(
    held: SecretState,
    records: int,
    epsilon: float,
    delta: float,
    besides: Sequence[Guarantee] = (),
) -> Guarantee:
    """What is promised of retraining without so many records more. Raises as `forget` does."""
    exactly = promised_anew(held, records, epsilon=epsilon, delta=delta, besides=besides)
    return exactly.assuming(PREPROCESSING, *held.facts["sentences"], *held.walk.assumed)


def _settled(held: SecretState, records: int, request: Wanted) -> PlannedRequest | None:
    """How a request is met by going on, None where it is by retraining. Raises as `forget` does."""
    if request.retrain:
        return None
    plan = planned_for(held, records, *request.target, request.besides)
    if not request.accept_loss:
        refuse_dear(plan.bill)
    return plan


def _wiped(table: CheckedRows, blank: NDArray[np.intp]) -> Array:
    """The weights of the rows, 0 for those that are forgotten."""
    weights = np.ones(table.records.n) if table.weights is None else table.weights.array.copy()
    weights[blank] = 0.0
    return np.asarray(weights)


def _digests(rows: CheckedRows, key: bytes) -> NDArray[Any]:
    """Digests of rows in memory, with their targets and weights."""
    weights = None if rows.weights is None else rows.weights.array
    return digests_of(rows.X, rows.targets.array, weights, key)


def _gone_on(
    held: SecretState, plan: PlannedRequest, gradients: LinearGradients, rows: NDArray[np.intp]
) -> SecretState:
    """The state after a request."""
    hidden = hides(plan.guarantee)
    shown, walk = go_on(plan.unlearning, gradients, held.walk, groups=held.groups, hidden=hidden)
    return replace(
        held,
        walk=replace(walk, assumed=held.walk.assumed),
        shown=shown,
        digests=without(held.digests, rows),
        log=(*held.log, _line(held, rows, walk.step - held.walk.step, plan.guarantee)),
        facts={**held.facts, **named_after(held, None)},
    )


def _in_place_of(
    held: SecretState, anew: SecretState, line: ForgottenRequest, named: Mapping[str, Any]
) -> SecretState:
    """The state of another training in the place of the one that was held, whose log goes on."""
    before = released_by(held)
    earlier = [None if before is None else before.to_dict()]
    facts = {**anew.facts, "note": held.facts["note"], "earlier": earlier, **named}
    return replace(anew, log=(*held.log, line), facts=facts)


def _line(
    held: SecretState,
    rows: NDArray[np.intp],
    steps: int,
    promised: Guarantee,
    retrained: bool = False,
) -> ForgottenRequest:
    """What the log says of a request that is met now."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    users = None if held.users is None else held.counted(rows)
    return ForgottenRequest(tuple(rows.tolist()), now, steps, promised, retrained, users)


def _theta(held: SecretState) -> Array:
    """(width, outputs): the iterate that was released."""
    return held.shown.reshape(len(held.shown), -1)


def _of_moments(held: SecretState, delta: float) -> tuple[Guarantee, ...]:
    """What the release for preconditioning costs one record whose contribution becomes zero."""
    moments = held.moments
    if moments is None:
        return ()
    noise = moments.moment_noise_std
    return (replace(moments, adjacency="zero_out", noise_std=noise).guarantee(delta),)


def _settings(estimator: Any) -> dict[str, str]:
    """What decides what the estimator makes of a table, as text by name."""
    return {
        name: _text(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _FREE
    }


def _text(value: Any) -> str:
    """A setting as text, the same in every process."""
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "__array__"):  # which shows a part of itself, where it is long
        names = list(map(str, getattr(value, "columns", ())))
        value = np.asarray(value).tolist()
        value = [names, value] if names else value
    if isinstance(value, Mapping):
        pairs = sorted((_text(key), _text(x)) for key, x in value.items())
        return f"{{{', '.join(f'{key}: {x}' for key, x in pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    if callable(value):
        return f"a {type(value).__name__}"
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return repr(float(value) if number else value)


def _public_arrays(estimator: Any) -> dict[str, NDArray[Any]]:
    """The labels, the names of columns and the map of a fit, as far as there are."""
    arrays = {
        name: np.array(getattr(estimator, name).tolist())
        for name in ("classes_", "feature_names_in_")
        if getattr(estimator, name, None) is not None
    }
    if estimator.preconditioner_ is not None:
        arrays["matrix"] = estimator.preconditioner_.matrix
    return arrays

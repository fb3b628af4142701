"""What stands around a private estimator and voids its guarantee: steps that learn, and searches.

Whatever is not known is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.compose import make_column_selector
from sklearn.pipeline import Pipeline

from pabi.learn.known_steps import (
    LABEL_SETS,
    beside_settings,
    inner_steps,
    is_ours,
    is_plain_memory,
    public_name,
    row_by_row,
    steps_within,
)
from pabi.learn.private_steps import count_anew, is_private, turn_of
from pabi.learn.users import id_columns
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import flag

LEAK, REPEATS, LABEL_SET, UNKNOWN = "leak", "multiplies the cost", "label set", "unknown"
UNITS, QUESTION = "units", "question"
_SAYS = MappingProxyType(
    {
        LEAK: "learns from the data without privacy",
        REPEATS: "may fit a private estimator more than once, or learn beside it: every fit costs",
        LABEL_SET: "learns the set of labels, which has to be public",
        UNKNOWN: "is not known to treat every row by itself",
        UNITS: "counts records, and other steps count users: no guarantee speaks of both",
        QUESTION: "may see several rows of a person: if so, give their ids to fit as groups",
    }
)
_CHOSEN = "columns that a function of the table chooses"


@dataclass(frozen=True)
class StepFinding:
    """A step of a pipeline that a guarantee does not cover, or a question about its columns.

    Attributes
    ----------
    step : str
        Where it stands: the names of steps from the outermost on, such as "columns.num.standardscaler".
    learns : tuple of str
        What it holds beside its settings: the names of attributes, never their values. Of a question the
        columns that look like ids.
    severity : str
        "leak": a step of scikit-learn that learns from the data. "multiplies the cost": it holds a private
        estimator and is not known to fit it just once. "label set": it learns which labels there are, which
        then have to be public. "unknown": it is not on the list of steps that treat every row by itself.
        "units": it counts records, where other steps count users. "question": it may be that a person has
        several rows.
    kind : str
        The name of its class.
    """

    step: str
    learns: tuple[str, ...]
    severity: str
    kind: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.step} ({self.kind}): {matter(self)}"


def matter(finding: StepFinding) -> str:
    """What is the matter with a step."""
    names = ", ".join(finding.learns)
    return _SAYS[finding.severity] + (f" ({names})" if names else "")


class StepFindings(tuple[StepFinding, ...]):
    """All that was found, in order; `print` shows a line for each.

    Parameters
    ----------
    iterable : iterable of StepFinding
        As for a tuple.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """A line for each."""
        return "\n".join(map(str, self)) or "no step learns from the data without privacy"


def check_pipeline(
    pipeline: Any, *, strict: bool = False, groups: bool | None = None
) -> StepFindings:
    """What in a pipeline may learn from the data without privacy, or fit a private estimator more than once.

    Known are pabi's own steps, those of scikit-learn that treat every row by itself, and what holds others
    and fits each once, by their very classes and settings (docs, "What stands around an estimator").
    Everything else is named: a subclass, a function or a class of your own, another library's. Nothing is
    fitted, and no record is looked at.

    Parameters
    ----------
    pipeline : estimator
        A pipeline, a search, a transformer or any other estimator of scikit-learn's manner, fitted or not.
    strict : bool
        Whether to raise an error for a finding that is no question.
    groups : bool, optional
        Whether `fit` will get `groups`, so that users are protected: then every private step has to count
        users. False: every person has one row. None: as the steps declare `users`; where none does and a
        column looks like an id, that is a question.

    Returns
    -------
    tuple of StepFinding
        In the order of the steps; empty where every step is known. `print` shows it.

    Raises
    ------
    InvalidInput
        `pipeline` is no estimator. With `strict`, anything was found; the error names the first step.

    Notes
    -----
    It cannot see what somebody did to the table before, nor settings that were computed from the data.

    References
    ----------
    docs, "What stands around an estimator".
    """
    strict = flag("strict", strict)
    counts_users = None if groups is None else flag("groups", groups)
    if isinstance(pipeline, type) or not hasattr(pipeline, "fit"):
        kind = type(pipeline).__name__
        raise InvalidInput(
            "pipeline", f"expected an estimator of scikit-learn's kind, got a {kind}"
        )
    findings = StepFindings((*findings_in(pipeline), *_of_units(pipeline, counts_users)))
    refused = [one for one in findings if one.severity != QUESTION]
    if strict and refused:
        raise refusal(refused[0])
    return findings


def refusal(finding: StepFinding, advice: str = "") -> InvalidInput:
    """The error that names a step."""
    expected = "expected a step that treats every row by itself, or one of pabi.learn"
    return InvalidInput(finding.step, f"{finding.kind} {matter(finding)}: {expected}{advice}")


def findings_in(step: Any, path: str = "") -> Iterator[StepFinding]:
    """What is found of a step and of all steps within it, but for units."""
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return
    kind, here = type(step).__name__, path or type(step).__name__.lower()
    within = steps_within(step)
    if within is not None:
        yield from _chosen(here, step)
        if not is_plain_memory(getattr(step, "memory", None)):
            yield StepFinding(here, ("memory",), UNKNOWN, kind)  # it computes in the steps' place
        frozen = public_name(step) == "sklearn.frozen.FrozenEstimator"
        named = set()
        # What it states the next fit learns with, whatever the last one left it.
        for name, part in (*within, *inner_steps(step)):
            for one in findings_in(part, _joined(path, name)):
                if (one.step, one.kind) not in named:
                    named.add((one.step, one.kind))
                    # To which data it was fitted before, nobody knows.
                    yield replace(one, severity=UNKNOWN) if frozen and one.severity == LEAK else one
        return
    repeats = not is_ours(step) and not is_private(step) and _holds_private(step)
    if repeats:
        yield StepFinding(here, (), REPEATS, kind)
    if repeats or is_ours(step):
        for name, part in inner_steps(step):
            yield from findings_in(part, _joined(path, name))
        return
    safe = row_by_row(step)
    if not safe:
        severity = LABEL_SET if public_name(step) in LABEL_SETS else LEAK
        yield StepFinding(here, beside_settings(step), UNKNOWN if safe is None else severity, kind)


def _holds_private(step: Any) -> bool:
    return any(is_private(one) or _holds_private(one) for _, one in inner_steps(step))


def _chosen(path: str, columns: Any) -> Iterator[StepFinding]:
    """Of columns side by side that a function of the table chooses: it may look at the data."""
    for name, _, which in getattr(columns, "transformers", ()):
        if callable(which) and type(which) is not make_column_selector:
            yield StepFinding(f"{path}.{name}", (_CHOSEN,), UNKNOWN, type(columns).__name__)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# Units.


def _of_units(pipeline: Any, groups: bool | None) -> Iterator[StepFinding]:
    """The private steps that cannot count users where others do; a question where nobody says."""
    private = [(path, step) for path, step in _every_step("", pipeline) if _releases(step)]
    declared = any(_counts_users(step) for _, step in private)
    if groups or (groups is None and declared):
        for path, step in private:
            if not hasattr(step, "users") or (declared and not _counts_users(step)):
                yield StepFinding(path, (), UNITS, type(step).__name__)
    elif groups is None and private and (ids := id_columns(_columns_of(pipeline))):
        kind = type(pipeline).__name__
        yield StepFinding(kind.lower(), ids, QUESTION, kind)


def _every_step(path: str, step: Any) -> Iterator[tuple[str, Any]]:
    """(path, step) of a step and of all within it."""
    if step is None or isinstance(step, str):
        return
    yield path or type(step).__name__.lower(), step
    within = steps_within(step)
    for name, part in inner_steps(step) if within is None else within:
        yield from _every_step(_joined(path, name), part)


def _releases(step: Any) -> bool:
    """Whether its own fit is a release, and not that of another within it."""
    return is_private(step) and not _holds_private(step)


def _counts_users(step: Any) -> bool:
    """Whether it declares users, or was fitted to some."""
    described = (getattr(step, name, None) for name in ("run_", "moments_"))
    fitted = any(getattr(one, "unit", None) == "user" for one in described)
    return fitted or getattr(step, "users", None) is not None


def _columns_of(pipeline: Any) -> Iterator[Any]:
    """What is known of the names of columns."""
    for _, step in _every_step("", pipeline):
        for name in ("feature_names_in_", "columns", "feature_ranges"):
            named = getattr(step, name, ())
            yield from named if isinstance(named, (Mapping, np.ndarray)) else ()
        for _, _, chosen in getattr(step, "transformers", ()):
            yield from (
                [chosen] if isinstance(chosen, str) else chosen if isinstance(chosen, list) else ()
            )


def refuse_out_of_turn(model: Any) -> None:
    """Raises InvalidInput where a private step was fitted after one that stands behind it in a pipeline.

    What the later one was trained on came from another fit then, which nothing here counts.
    """
    for _, step in _every_step("", model):
        latest, before = 0, ""
        for name, part in step.steps if isinstance(step, Pipeline) else ():
            turns = [turn_of(one) for _, one in _every_step("", part) if _has_guarantee(one)]
            if turns and min(turns) < latest:
                says = f"the step {before!r} was fitted after this one: fit the pipeline as a whole"
                raise InvalidInput(
                    name, f"expected the steps before it as they were at its fit, {says}"
                )
            if turns and max(turns) >= latest:
                latest, before = max(turns), name


def _has_guarantee(step: Any) -> bool:
    return is_private(step) and getattr(step, "guarantee_", None) is not None


def counted_apart(model: Any) -> Any:
    """The model, whose fits are counted with those of no other: a search accounts for them."""
    for _, step in _every_step("", model):
        if is_private(step):
            count_anew(step)
    return model

"""What stands around a private estimator and voids its guarantee: steps that learn, and searches.

`check_pipeline` tries the steps of a pipeline. `surroundings` does so while an estimator is fitted: what
stands before it is on Python's stack, since scikit-learn's pipelines and searches call it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from pabi.guarantees.guarantee import Guarantee
from pabi.learn.held import beside_settings, fits
from pabi.learn.private_steps import is_private
from pabi.learn.repeats import fits_more_than_once, holds_private
from pabi.learn.sentences import LEARNT, REPEATED, UNCLEAR, WORKER
from pabi.learn.synthetic import Shape
from pabi.learn.trials import HONEST, LABEL_SET, LEAK, UNKNOWN, tried, trying
from pabi.numbers.errors import InvalidInput, PrivacyWarning
from pabi.numbers.fields import flag
from pabi.numbers.warning import warn_once

REPEATS = "multiplies the cost"
_MADE_OF_OTHERS = "rows made of other rows"
# Functions of scikit-learn that fit a step once; its other functions fit for searches, folds and ensembles.
_FITTING_ONCE = ("pipeline", "compose", "base", "utils", "_config", "callback", "_callbacks")
_WORKERS = ("joblib.externals.loky", "concurrent.futures", "multiprocessing.pool", "distributed")
_ADVICE = (
    "declare feature_ranges, or use SchemaEncoder, PrivateRanges, PrivateScaler, PrivateCategories, "
    "PrivateImputer or PrivateWhitener; pabi.learn.check_pipeline shows all such steps"
)


@dataclass(frozen=True)
class StepFinding:
    """A step of a pipeline that a guarantee does not cover.

    Attributes
    ----------
    step : str
        Where it stands: the names of steps from the outermost on, such as "columns.num.standardscaler".
    learns : tuple of str
        What it learns: the names of attributes, never their values.
    severity : str
        "leak": it learns from the data without privacy. "multiplies the cost": it fits a private estimator
        more than once. "label set": it learns which labels there are, which then have to be public.
        "unknown": it could not be tried, or holds what was fitted before.
    kind : str
        The name of its class.
    """

    step: str
    learns: tuple[str, ...]
    severity: str
    kind: str

    def __str__(self) -> str:
        """One line."""
        learns = ", ".join(self.learns) or "nothing"
        what = {
            LEAK: f"learns {learns} from the data without privacy",
            REPEATS: "fits a private estimator more than once: every fit costs",
            LABEL_SET: f"learns {learns} from the labels: they have to be public",
            UNKNOWN: f"could not be tried in full; it holds {learns}",
        }[self.severity]
        return f"{self.step} ({self.kind}): {what}"


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


def check_pipeline(pipeline: Any, *, strict: bool = False) -> StepFindings:
    """What in a pipeline learns from the data without privacy, or fits a private estimator more than once.

    Copies of its steps are fitted to small tables that are made up. What they then hold, and what they make
    of the same rows, must not depend on the other rows of these tables. So a step counts by what it does,
    whatever its class is called. No record is looked at.

    Parameters
    ----------
    pipeline : estimator
        A pipeline, a search, a transformer or any other estimator of scikit-learn's manner, fitted or not.
    strict : bool
        Whether to raise an error if anything was found.

    Returns
    -------
    tuple of StepFinding
        In the order of the steps; empty where every step is private or learns nothing. `print` shows it.

    Raises
    ------
    InvalidInput
        `pipeline` is no estimator. With `strict`, anything was found; the error names the first step.

    Notes
    -----
    A trial finds what a step does on made-up tables. It cannot see what somebody did to the table before, a
    step that learns from tables of a certain size or content only, or constants in a function that were
    computed from the data. Tables for a fitted step have as many columns as it was fitted to, of their names.
    Copies do whatever else the step does when it is fitted, such as writing files.

    References
    ----------
    docs, "What stands around an estimator".
    """
    strict = flag("strict", strict)
    if isinstance(pipeline, type) or not _is_estimator(pipeline):
        kind = type(pipeline).__name__
        raise InvalidInput(
            "pipeline", f"expected an estimator of scikit-learn's kind, got a {kind}"
        )
    findings = StepFindings(_findings("", pipeline, None))
    if strict and findings:
        raise _refusal(findings[0])
    return findings


def surroundings(private: Any, *, strict: Any, stacklevel: int) -> tuple[str, ...]:
    """What the guarantee of an estimator that is being fitted does not cover, as sentences.

    Warns of each, once in a process, on behalf of a caller so many frames up. Raises InvalidInput where
    `strict`.
    """
    strict = flag("strict", strict)
    if trying():
        return ()
    around = _around(private)
    if strict and around.findings:
        raise _refusal(around.findings[0])
    for finding in around.findings:
        if message := _warning(private, finding):
            warn_once(message, PrivacyWarning, stacklevel=stacklevel + 1)
    sentences = [_sentence(finding) for finding in around.findings]
    return tuple(dict.fromkeys(sentences + [WORKER] * around.elsewhere))


def _refusal(finding: StepFinding) -> InvalidInput:
    return InvalidInput(finding.step, str(finding).partition(": ")[2])


def _warning(private: Any, finding: StepFinding) -> str | None:
    """What to say of it at once: nothing of a step that holds nothing and could not be tried."""
    learns = ", ".join(finding.learns)
    if finding.severity == REPEATS:
        return (
            f"{type(private).__name__} is fitted within {finding.kind}, which fits more than once: "
            "guarantee_ is that of one fit; compose all of them (pabi.compose), search on public data, or "
            "use PrivateSearchCV"
        )
    if finding.severity == LEAK:
        return (
            f"the step {finding.step!r} learns {learns} from the data without privacy, which no guarantee "
            f"covers: {_ADVICE}"
        )
    if finding.severity == UNKNOWN and learns:
        return (
            f"the step {finding.step!r} holds {learns}, and whether it learnt that from the data could not "
            f"be found out: if so, no guarantee covers it; {_ADVICE}"
        )
    return None


def _sentence(finding: StepFinding) -> str:
    if finding.severity == REPEATS:
        return REPEATED.format(holder=finding.kind)
    if finding.severity == LEAK:
        return LEARNT.format(step=finding.step, learns=", ".join(finding.learns))
    return UNCLEAR.format(step=finding.step)


# Steps.


def has_guarantee(step: Any) -> bool:
    """Whether it is private: what it learns has a guarantee of its own."""
    return is_private(step) or type(getattr(step, "__dict__", {}).get("guarantee_")) is Guarantee


def examined(path: str, step: Any, shape: Shape) -> StepFinding | None:
    """What is found of a step that holds no other steps."""
    if has_guarantee(step) or is_ours(step):
        return None
    kind = type(step).__name__
    if hasattr(step, "fit_resample"):
        return StepFinding(path, (_MADE_OF_OTHERS,), LEAK, kind)
    if before := _fitted_settings(step):
        return StepFinding(path, before, UNKNOWN, kind)
    outcome = tried(step, shape)
    learns = outcome.learns
    if outcome.verdict == UNKNOWN:
        learns = tuple(beside_settings(step))
    if outcome.verdict != HONEST:
        return StepFinding(path, learns, outcome.verdict, kind)
    rest = tuple(name for name in beside_settings(step) if name not in outcome.holds)
    return StepFinding(path, rest, UNKNOWN, kind) if rest else None


def shape_of(step: Any, columns: Any = None) -> Shape:
    """How many columns the step was fitted to, or is to be fitted to, and their names."""
    names = getattr(step, "feature_names_in_", None)
    if names is None and isinstance(columns, list) and all(isinstance(c, str) for c in columns):
        names = columns
    width = getattr(step, "n_features_in_", None)
    if width is None and isinstance(columns, list):
        width = len(columns)
    return Shape(width or None, tuple(names) if names is not None and len(names) else None)


def _findings(path: str, step: Any, columns: Any) -> Iterator[StepFinding]:
    """Of a step and of all steps within it."""
    if not _is_estimator(step) or has_guarantee(step):
        return
    parts = _parts(step)
    if parts is not None:
        for name, part, chosen in parts:
            yield from _findings(_joined(path, name), part, chosen)
    elif holds_private(step):
        yield from _of_holder(path, step)
    elif finding := examined(path or _named(step), step, shape_of(step, columns)):
        yield finding


def _of_holder(path: str, holder: Any) -> Iterator[StepFinding]:
    """Of what fits a private estimator that is a setting of it, such as a search."""
    kind = type(holder).__name__
    several = False if is_ours(holder) else fits_more_than_once(holder)
    if several is not False:
        yield StepFinding(path or _named(holder), (), REPEATS if several else UNKNOWN, kind)
    for name, value in holder.get_params(deep=False).items():
        for inner, step in _listed(value) if isinstance(value, list) else [(name, value)]:
            yield from _findings(_joined(path, inner), step, None)


def _parts(step: Any) -> list[tuple[str, Any, Any]] | None:
    """(name, step, columns) of the steps of a pipeline or of columns side by side, None of any other step."""
    for attribute in ("steps", "transformer_list", "transformers_", "transformers"):
        parts = _listed(getattr(step, attribute, None))
        if parts:
            chosen = [part[2] if len(part) > 2 else None for part in getattr(step, attribute)]
            steps = [(*part, columns) for part, columns in zip(parts, chosen, strict=True)]
            rest = getattr(step, "remainder", None) if attribute == "transformers" else None
            return [*steps, ("remainder", rest, None)]
    return None


def _listed(value: Any) -> list[tuple[str, Any]]:
    """(name, step) of a list of tuples that begin so; none of anything else."""
    if not isinstance(value, list) or not all(
        isinstance(part, tuple) and len(part) > 1 and isinstance(part[0], str) for part in value
    ):
        return []
    return [(part[0], part[1]) for part in value]


def _is_estimator(step: Any) -> bool:
    return hasattr(step, "fit") and hasattr(step, "get_params") and not isinstance(step, type)


def is_ours(step: Any) -> bool:
    """Whether it is of pabi's own, where nothing is learnt without a guarantee; a subclass is not."""
    return type(step).__module__.partition(".")[0] == "pabi"


def _fitted_settings(step: Any) -> tuple[str, ...]:
    """The settings that are fitted estimators, or methods of such: to which data nobody knows."""
    names = []
    for name, value in step.get_params(deep=False).items():
        owner = getattr(value, "__self__", value)
        if fits(value) and _is_estimator(owner) and beside_settings(owner):
            names.append(name)
    return tuple(names)


def _named(step: Any) -> str:
    return type(step).__name__.lower()


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# The stack.


@dataclass(frozen=True)
class _Around:
    """`findings`: of what stands around an estimator. `elsewhere`: whether some may be in another process."""

    findings: tuple[StepFinding, ...]
    elsewhere: bool


def _around(private: Any) -> _Around:
    """What is on the stack above the fit of `private`, the nearest first."""
    passed: dict[int, Any] = {id(private): private}
    findings: list[StepFinding] = []
    elsewhere = False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        owner = _owner(frame)
        elsewhere = elsewhere or module.startswith(_WORKERS)
        if owner is None:
            if _fits_for_several(module):
                findings.append(_repeated(_holder_above(frame)))
        elif id(owner) not in passed:
            several = _repeated(type(owner).__name__) in findings
            try:
                findings += list(_of_owner(owner, frame, passed, several or None))
            except (
                Exception
            ):  # of whatever kind: it does not answer as estimators do, and may be fitted
                findings.append(_unclear(owner))
            passed[id(owner)] = owner
        frame = frame.f_back
    return _Around(_once(findings), elsewhere)


def released_before(private: Any) -> tuple[str, ...]:
    """The steps of pabi's own that stand around an estimator that is being fitted, and released something of
    the rows that it is fitted to: those before it in a pipeline, and searches."""
    passed: dict[int, Any] = {id(private): private}
    steps: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = _owner(frame)
        if owner is not None and id(owner) not in passed:
            if _parts(owner) is not None:
                steps += [name for name, step in _before(owner, frame, passed) if _releases(step)]
            elif is_ours(owner) and holds_private(owner):
                steps.append(_named(owner))
            passed[id(owner)] = owner
        frame = frame.f_back
    return tuple(dict.fromkeys(steps))


def _releases(step: Any) -> bool:
    """Whether it, or a step within it, released what it learned."""
    if type(getattr(step, "guarantee_", None)) is Guarantee:
        return True
    return any(_releases(part) for _, part, _ in _parts(step) or ())


def _owner(frame: FrameType) -> Any:
    """The estimator of whose methods this is a call, None of any other call."""
    code = frame.f_code
    if not code.co_argcount or code.co_varnames[0] != "self":
        return None
    owner = frame.f_locals.get("self")
    return owner if _is_estimator(owner) else None


def _fits_for_several(module: str) -> bool:
    """Whether a function of this module of scikit-learn fits for a search, for folds or for an ensemble."""
    package, _, rest = module.partition(".")
    return package == "sklearn" and rest.partition(".")[0] not in _FITTING_ONCE


def _unclear(owner: Any) -> StepFinding:
    return StepFinding(_named(owner), (), UNKNOWN, type(owner).__name__)


def _repeated(holder: str) -> StepFinding:
    return StepFinding(holder.lower(), (), REPEATS, holder)


def _holder_above(frame: FrameType) -> str:
    """What calls this function: the class of the nearest estimator, else scikit-learn's public function."""
    name = "a search or an ensemble"
    above: FrameType | None = frame
    while above is not None:
        module = str(above.f_globals.get("__name__", ""))
        owner = _owner(above)
        if owner is not None:
            return type(owner).__name__
        if not module.startswith(("sklearn.", "joblib.")):
            break
        if _fits_for_several(module) and not above.f_code.co_name.startswith(("_", "<")):
            name = above.f_code.co_name
        above = above.f_back
    return name


def _of_owner(
    owner: Any, frame: FrameType, passed: dict[int, Any], several: bool | None
) -> Iterator[StepFinding]:
    """What is found of an estimator that is fitting others: the steps before them, or how often it fits.

    `several`: whether it is seen to fit more than once, None to find out.
    """
    if _parts(owner) is not None:
        for name, step in _before(owner, frame, passed):
            yield from _findings(name, step, None)
        return
    if is_private(owner) or is_ours(owner) or not holds_private(owner):
        return  # a search of pabi's own counts what it fits
    several = fits_more_than_once(owner) if several is None else several
    if several is not False:
        yield _repeated(type(owner).__name__) if several else _unclear(owner)
    for name, step in _fitted_parts(owner):
        if id(step) not in passed:
            yield from _findings(_joined(_named(owner), name), step, None)


def _before(pipeline: Any, frame: FrameType, passed: dict[int, Any]) -> list[tuple[str, Any]]:
    """The steps of a pipeline before the one that is being fitted; columns side by side have none before."""
    steps = _listed(getattr(pipeline, "steps", None))
    current = passed.keys() | {id(value) for value in frame.f_locals.values()}
    at = [k for k, (_, step) in enumerate(steps) if id(step) in current]
    return steps[: max(at, default=len(steps) - 1)] if steps else []


def _fitted_parts(holder: Any) -> Iterator[tuple[str, Any]]:
    """The estimators that it has fitted so far, by the attribute that holds them."""
    for name, value in vars(holder).items():
        if name.endswith("_") and not name.startswith("_"):
            for part in value if isinstance(value, list) else [value]:
                if _is_estimator(part) and (_parts(part) or beside_settings(part)):
                    yield name, part


def _once(findings: Iterable[StepFinding]) -> tuple[StepFinding, ...]:
    """Each once, without label sets, which estimators speak of themselves."""
    return tuple(dict.fromkeys(f for f in findings if f.severity != LABEL_SET))

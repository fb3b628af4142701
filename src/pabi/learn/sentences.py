"""What guarantees of estimators and transformers assume beside what follows from a description."""

from __future__ import annotations

from collections.abc import Iterable

PREPROCESSING = (
    "preprocessing used no private data, or through releases that are counted here alone"
)
ONE_FIT = "every release is one fit; what other searches and refits cost has to be added"
LABELS = "the label set is public"
WEIGHTS = "class_weight is public"
MOST_WEIGHT = "max_sample_weight is public, and a record's weight depends on that record alone"
ENROLLED = "every enrolled user has a record; their number is public"
AGAIN = "this estimator, or a clone of it, was fitted before: what those fits cost is counted apart"
UNCLEAR = "the step {step!r} learnt nothing from the same data: that could not be found out"
SELECTED = "the types of columns, by which they are selected, are public"
TYPES = "whether cells are text, or numbers of one precision or another, before the step {step!r} is public"
DENSITY = (
    "whether the output of columns side by side is sparse, which its density decides, is public"
)

# Of files of before.
REPEATED = "this is one fit of several within {holder}: what the others cost has to be added"
LEARNT = "the step {step!r} learnt {learns} from the same data without privacy: what it shows is not covered"
WORKER = "steps before this fit, which a worker did, learnt nothing from the same data: they were not seen"

# What the rest of a program did with the same data, or may have done.
_ELSEWHERE = (AGAIN, REPEATED, LEARNT, UNCLEAR, WORKER)


def not_covered(assumptions: Iterable[str]) -> tuple[str, ...]:
    """Those that tell of other uses of the data, for which the guarantee does not pay, or may not."""
    return tuple(s for s in assumptions if any(_says(pattern, s) for pattern in _ELSEWHERE))


def _says(pattern: str, sentence: str) -> bool:
    """Whether a sentence has the words of a pattern before its first field and after its last."""
    return sentence.startswith(pattern.partition("{")[0]) and sentence.endswith(
        pattern.rpartition("}")[2]
    )

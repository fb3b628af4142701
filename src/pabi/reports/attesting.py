"""Who stands behind each assumption of a guarantee, and what must stay hidden for it to hold.

A sentence is known by how it begins. One that is not known here is attested by the person who runs the
training: whoever adds a sentence need not come here to be safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from pabi.execute.engine import CLIPS_ITSELF


class Attests(Enum):
    """Who stands behind an assumption."""

    ACCOUNTANT = "the accountant: it says what was proven, or follows from the description"
    TRAINER = "pabi, where pabi executes the run; otherwise the person who runs it"
    PERSON = "the person who runs it"


_BEGINNINGS: dict[Attests, tuple[str, ...]] = {
    Attests.ACCOUNTANT: (
        "adjacent data sets differ in one record",
        "the model is compared with one retrained",
        "every iterate may be released",
        "the whole path may be released",
    ),
    Attests.TRAINER: (
        "one permutation is drawn uniformly",
        "a fresh permutation is drawn uniformly",
        "every step draws its batch uniformly",
        "every step includes each record independently",
        "every record is put into one of the batches",
        "every step uses all records",
        "a batch of more than",
        "every batch sum of gradients",
        "noise is Gaussian",
        "each step depends on the data only through the noisy gradients",
        "each record's gradient is clipped",
        "each record's loss is clipped convexly",
        "each record's gradient has norm at most",
        "each record's vector has norm at most",
        "the regulariser ",
        "the number of trials is drawn in secret",
        "every trial draws one of",
        "which records train and which records score",
        "noise on the accuracy is Gaussian",
        "nothing but the noisy",
        "the last ",
        "the ledger refused every release",
    ),
}
_STEPS_AS_STATED = "moduli of continuity (slopes), step sensitivities and noises are as stated"
_CLIPPING = ("each record's gradient", "each record's loss is clipped", "every batch sum")

# What a sentence says has to stay hidden, by a part of it.
_HIDDEN: tuple[tuple[str, str], ...] = (
    (
        "no model handed out before it, and no earlier iterate, is known",
        "every earlier model and iterate, and what was computed from them: checkpoints, training losses, "
        "gradients",
    ),
    (
        "no iterate in between is",
        "every iterate between the models that were handed out, and what was computed from it",
    ),
    (
        "every earlier iterate stays hidden",
        "every iterate but the last, and what was computed from it: checkpoints, training losses, gradients",
    ),
    ("the path before it stays hidden", "the path before its end, and what was computed from it"),
    ("stays secret", "the order of the records: which of them was in which batch"),
    ("stay secret", "the batches: which record was drawn when"),
    ("never revealed", "the noise, and every seed or state of the generator it was drawn from"),
    (
        "no normalising constant, cost or number of attempts",
        "normalising constants, costs and the number of attempts of the sampler",
    ),
    (
        "the number of trials, their times and all others stay hidden",
        "every trial but the best, their number and how long they took",
    ),
    ("no others are released", "every other draw"),
    ("nothing but the noisy sum", "the sum without noise"),
    ("nothing but the noisy accuracy", "the accuracy without noise"),
    ("checkpoints is released", "checkpoints of the interrupted run"),
)


def attesting(sentence: str, every: Sequence[str]) -> Attests:
    """Who stands behind a sentence of a guarantee that rests on `every` one of these."""
    if sentence.startswith(_CLIPPING) and CLIPS_ITSELF in every:
        return Attests.PERSON
    if any(s.startswith(_STEPS_AS_STATED) for s in every) and sentence.startswith("noise"):
        return Attests.PERSON
    for who, beginnings in _BEGINNINGS.items():
        if sentence.startswith(beginnings):
            return who
    return Attests.PERSON


def hidden(sentences: Sequence[str]) -> tuple[str, ...]:
    """What must stay hidden for these sentences to be true."""
    return tuple(what for part, what in _HIDDEN if any(part in s for s in sentences))

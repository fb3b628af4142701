"""What a report consists of: plain text, which whoever writes it escapes as their format needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pabi.describe.accounted import RETRAINED, Compared
from pabi.execute.engine import CLIPS_ITSELF


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `alarming`: of what voids the promise."""

    text: str
    alarming: bool = False


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table; without a header its first column has the names of the rows."""

    rows: tuple[tuple[str, ...], ...]
    header: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A line for the shell."""

    text: str


@dataclass(frozen=True)
class Picture:
    """Where the picture of the guarantee stands, in formats that have one."""


Block = Paragraph | Items | Table | Command | Picture


@dataclass(frozen=True)
class Section:
    """A part of a report under a title."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Report:
    """A report, and the numbers that a program reads of it.

    `metadata`: names and values, numbers already rounded up and as text.
    """

    title: str
    sections: tuple[Section, ...]
    metadata: tuple[tuple[str, str | float | bool | None], ...]


# What a report says of two data sets, and what of a model that forgot beside one that was retrained.


@dataclass(frozen=True)
class Wording:
    """The sentences that depend on what is compared.

    Attributes
    ----------
    promise : str
        What ε and δ mean, with a place for what is compared.
    outright : str
        Why δ has to be small.
    attacker : str
        What an attacker knows and decides, with a place for the unit where it is named.
    few, even : str
        What is found at a rate of false positives, and where both are as likely, with places for numbers.
    nothing_else : str
        What may not be released besides.
    """

    promise: str
    outright: str
    attacker: str
    few: str
    even: str
    nothing_else: str


DATA_SETS = Wording(
    promise="Take two data sets that differ in one thing: {}. Whatever is computed from the release, any "
    "outcome is at most e^ε times as likely with the one as with the other, up to a probability of δ. "
    "Smaller numbers are more private. It speaks of what the release adds to what was known before, and not "
    "of what is true of people in general.",
    outright="Publishing one record outright, at random, satisfies any definition with δ = 1/n, so that δ "
    "has to be far below it.",
    attacker="An attacker knows both data sets, sees the release, and decides which of the two was used "
    "(membership inference). Whatever the attack:",
    few="If at most 1 % of its accusations of the innocent are allowed (false positives), it finds at most "
    "{} of those who were in (true positives).",
    even="Where either candidate is as likely as the other beforehand, it is right in at most {} of all "
    "cases (Bayes success; 50 % without the release).",
    nothing_else="Nor may anything else be released that was computed from the data, such as an accuracy on "
    "them: each is a release of its own, which has to be added.",
)
FORGETTING = Wording(
    promise="Records were withdrawn: {}. Whatever is computed from the model, any outcome is at most e^ε "
    "times as likely with the one as with the other, up to a probability of δ. The smaller the numbers, the "
    "more is forgotten. It speaks of this model alone. Checkpoints, stored data and models that were handed "
    "out before forget nothing, and it says nothing of the privacy of all other records.",
    outright="A model that shows one record outright, at random, is within δ = m/n of one that was retrained "
    "without m records, so that δ has to be far below 1/n.",
    attacker="An attacker knows all data and which {}s were withdrawn, sees the model, and decides whether "
    "it forgot them or was retrained. Whatever the attack:",
    few="If at most 1 % of retrained models may be taken for ones that forgot (false positives), it "
    "recognises at most {} of those that forgot (true positives).",
    even="Where either is as likely as the other beforehand, it is right in at most {} of all cases (Bayes "
    "success; 50 % without the model).",
    nothing_else="Nor may anything else be handed out that was computed from the withdrawn records, such as "
    "an accuracy on them: no later step takes it back.",
)


def wording(compared: Compared) -> Wording:
    """The sentences about what is compared."""
    return FORGETTING if compared == RETRAINED else DATA_SETS


# Who stands behind each assumption of a guarantee, and what must stay hidden for it to hold.
#
# A sentence is known by how it begins. One that is not known here is attested by the person who runs the
# training: whoever adds a sentence need not come here to be safe.


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

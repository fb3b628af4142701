"""What a report says of two data sets, and what of a model that forgot beside one that was retrained."""

from __future__ import annotations

from dataclasses import dataclass

from pabi.describe.neighbours import RETRAINED, Compared


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

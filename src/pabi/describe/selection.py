"""The sentences about a private selection: what its guarantee rests on beside what one trial rests on."""

from __future__ import annotations


def selection_sentences(shape: float, gamma: float, settings: int, scored: bool) -> tuple[str, ...]:
    """What the release of the best of a random number of trials rests on.

    `settings`: how many a trial draws from. `scored`: whether private records score.
    """
    drawn = (
        f"every trial draws one of {settings} settings, all equally likely, whatever the other trials gave",
    )
    parted = (
        "which records train and which records score does not depend on the data, and no record does both",
    )
    return (
        "the number of trials is drawn in secret from the truncated negative binomial law of shape "
        f"{shape!r} and γ = {gamma!r}, independent of the data",
        "the trials are independent runs of one mechanism, and which of two is better does not depend on the "
        "data beyond what they release",
        "only the best trial is released; the number of trials, their times and all others stay hidden",
        *(drawn if settings > 1 else ()),
        *(parted if scored else ()),
    )

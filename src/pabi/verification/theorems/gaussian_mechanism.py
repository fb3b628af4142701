"""The Gaussian mechanism: μ is what one record moves the numbers that are released by, over the noise.

On second moments (docs, "Second moments") and on an accuracy.
"""

from __future__ import annotations

from typing import Any

from pabi.describe.statistics import accuracy_sentences, second_moments_sentences
from pabi.verification.arithmetic import root_up
from pabi.verification.bounds import Bounds, JointBound
from pabi.verification.statistics import Accuracy, SecondMoments
from pabi.verification.theorem import Payload, ProofCheck, Proven, named

_METHOD = "Gaussian mechanism"
_SOURCE = "Dong, Roth, Su 2022, Thm 2.7"
_OF_MOMENTS = f"{_SOURCE}; docs, Second moments"


def _of_moments(subject: SecondMoments, payload: Payload) -> Proven:
    return Proven(second_moments_sentences(subject.description), _gaussian(subject))


def _of_accuracy(subject: Accuracy, payload: Payload) -> Proven:
    return Proven(accuracy_sentences(subject.description), _gaussian(subject))


def _gaussian(subject: Any) -> Bounds:
    """G(s/σ), of a sensitivity s and a noise σ that follow from a description."""
    noise = subject.noise_std
    return (JointBound.gaussian(root_up(subject.sensitivity_square / (noise * noise))),)


THEOREMS = {
    _METHOD: {
        SecondMoments: ProofCheck(("run", "claim"), _of_moments, named(_METHOD, _OF_MOMENTS)),
        Accuracy: ProofCheck(("run", "claim"), _of_accuracy, named(_METHOD, _SOURCE)),
    }
}

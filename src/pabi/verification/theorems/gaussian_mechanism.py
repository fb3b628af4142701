"""The Gaussian mechanism on second moments: μ is what one record moves them by over the noise.

(Docs, "Second moments".)
"""

from __future__ import annotations

from pabi.describe.second_moments import second_moments_sentences
from pabi.verification.arithmetic import root_up
from pabi.verification.bounds import JointBound
from pabi.verification.second_moments import SecondMoments
from pabi.verification.theorem import Payload, ProofCheck, Proven, named

_METHOD = "Gaussian mechanism"
_SOURCE = "Dong, Roth, Su 2022, Thm 2.7; docs, Second moments"


def _check(subject: SecondMoments, payload: Payload) -> Proven:
    noise = subject.noise_std
    mu = root_up(subject.sensitivity_square / (noise * noise))
    return Proven(second_moments_sentences(subject.description), (JointBound.gaussian(mu),))


THEOREMS = {_METHOD: {SecondMoments: ProofCheck(("run", "claim"), _check, named(_METHOD, _SOURCE))}}

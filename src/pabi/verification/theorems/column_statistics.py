"""Statistics of columns: μ is what one record moves them by over the noise; undeclared levels may fail.

(Docs, "Theory", 18.)
"""

from __future__ import annotations

from pabi.describe.statistics import column_statistics_sentences
from pabi.verification.arithmetic import root_up
from pabi.verification.bounds import JointBound
from pabi.verification.factors.failure import Failure
from pabi.verification.factors.gaussians import Gaussians
from pabi.verification.statistics import ColumnStatistics
from pabi.verification.theorem import Payload, ProofCheck, Proven, named

_METHOD = "column statistics"
_SOURCE = "Dong, Roth, Su 2022, Thm 2.7 and Cor. 3.3; docs, Theory, 18"


def _check(subject: ColumnStatistics, payload: Payload) -> Proven:
    noise = subject.noise_std
    mu = root_up(subject.sensitivity_square / (noise * noise))
    bound = JointBound.of(Gaussians.single(mu), Failure(subject.failure))
    return Proven(column_statistics_sentences(subject.description), (bound,))


THEOREMS = {
    _METHOD: {ColumnStatistics: ProofCheck(("run", "claim"), _check, named(_METHOD, _SOURCE))}
}

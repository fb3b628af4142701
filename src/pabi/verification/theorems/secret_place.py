"""Secret place: payments under linear slopes for every place of a record that no other record depends on."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from pabi.verification.bounds import JointBound
from pabi.verification.cases import LinearCases, every_position
from pabi.verification.chains import of_runs
from pabi.verification.factors.failure import Failure
from pabi.verification.factors.secret_mixtures import SecretMixtures
from pabi.verification.limits import Refused
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.theorem import Payload, ProofCheck, Proven, named
from pabi.verification.theorems.shifted_interpolation import SOURCE


def _ordered(run: OrderedRun, payload: Payload) -> Proven:
    assumptions = run.assumptions(hidden=True)
    match run.scheme:
        case SecretOnce():
            if not run.scheme.independent:
                raise Refused("theorem: a record's place changes those of others")
        case SecretEveryEpoch() | KnownPositions():
            raise Refused("theorem: it needs a place that is drawn once, in secret")
        case _:
            assert_never(run.scheme)
    match run.neighbours:
        case "zero_out":
            opposite = False
        case "replace_one":
            opposite = True
            if run.run.gradient_sensitivity is not None:
                raise Refused("gradient_sensitivity: it does not say what one record moves")
        case _:
            assert_never(run.neighbours)
    # Either record by itself against none.
    alone = OrderedRun(replace(run.run, adjacency="zero_out"), run.scheme)
    parts = every_position(alone, payload["cases"], LinearCases(alone, payload))
    mixture = SecretMixtures.single(parts, opposite)
    return Proven(assumptions, (JointBound.of(mixture, Failure(run.scheme.failure)),))


THEOREMS = {
    "secret place": of_runs(
        ordered=ProofCheck(
            ("run", "claim", "position", "cases", "steps"),
            _ordered,
            named("secret place", f"{SOURCE}, by a label that stays secret (docs, Secret places)"),
        )
    )
}

"""Langevin chains: every chain is a run of noisy SGD, and independent chains compose.

x ← Π(x − ηβ∇L(x) + √(2η)Z) takes gradient steps of size ηβ with noise σ² = 2η. Source: Bok, Su, Altschuler
2024, Prop. 5.1; Dong, Roth, Su 2022, Thm 3.2 for several chains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pabi.assumptions import langevin_chain
from pabi.guarantee import Guarantee

if TYPE_CHECKING:
    from pabi.certificate import Certificate
    from pabi.langevin import LangevinChain
    from pabi.runs import NoisySGD

Analysis = Callable[["NoisySGD", float, None], Guarantee]


def of_chain(chain: LangevinChain, analysis: Analysis, delta: float) -> Guarantee:
    """What `analysis` of one chain says of all of them."""
    one = analysis(chain.run, delta, None)
    curve = one.curve if chain.chains == 1 else one.curve.self_compose(chain.chains)

    def prove() -> Certificate | None:
        from pabi.certificate import of_chains

        proof = one.certificate
        return None if proof is None else of_chains(chain, proof, curve)

    return replace(
        one, curve=curve, assumptions=langevin_chain(chain, one.assumptions), _prove=prove, _read={}
    )

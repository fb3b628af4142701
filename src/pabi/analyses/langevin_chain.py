"""Langevin chains: every chain is a run of noisy SGD, and independent chains compose.

x ← Π(x − ηβ∇L(x) + √(2η)Z) takes gradient steps of size ηβ with noise σ² = 2η. Source: Bok, Su, Altschuler
2024, Prop. 5.1; Dong, Roth, Su 2022, Thm 3.2 for several chains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pabi.describe.files import to_dict
from pabi.describe.langevin import LangevinChain, chain_sentences
from pabi.describe.runs import NoisySGD
from pabi.guarantees.certificate import Certificate
from pabi.guarantees.guarantee import Guarantee
from pabi.guarantees.proof import Proof
from pabi.tradeoff import TradeOff

Analysis = Callable[[NoisySGD, float, None], Guarantee]


@dataclass(frozen=True, eq=False)
class ChainProof:
    """The proof of independent chains. `one`: that of one of them as noisy SGD."""

    chain: LangevinChain
    one: Proof
    curve: TradeOff

    @property
    def theorem(self) -> str:
        """The theorem of one chain's proof."""
        return self.one.theorem

    def written(self) -> dict[str, Any]:
        """The body of the certificate: the chains, the certificate of one, and what is claimed of all."""
        one = Certificate.of(self.one, self.chain.adjacency).payload
        out = {"run": to_dict(self.chain), "one": one}
        if "reading" in one:
            return out | {name: one[name] for name in ("claim", "reading")}
        return out | {"claim": {"tradeoff": self.curve.to_dict()}}


def of_chain(chain: LangevinChain, analysis: Analysis, delta: float) -> Guarantee:
    """The guarantee of all chains together, from what `analysis` proves of one."""
    one = analysis(chain.run, delta, None)
    assert one.proof is not None
    assert not isinstance(one.proof, Certificate)
    curve = one.curve if chain.chains == 1 else one.curve.self_compose(chain.chains)
    proof = ChainProof(chain, one.proof, curve)
    return replace(
        one, curve=curve, assumptions=chain_sentences(chain, one.assumptions), proof=proof
    )

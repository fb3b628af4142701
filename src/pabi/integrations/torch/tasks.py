"""What is to be done with a dataset, whatever it is that is trained; and what comes of it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from pabi.budget.ledger import Ledger, reserved
from pabi.describe.runs import NoisySGD
from pabi.describe.second_moments import NoisySecondMoments
from pabi.execute.engine import PerRecordGradients, Trained, train
from pabi.execute.randomness import is_secret
from pabi.guarantees.guarantee import Guarantee
from pabi.integrations.torch.datasets import Pairs
from pabi.learn.whitening import together
from pabi.numbers.rounding import Array

FROZEN = "what the module holds and does not train, buffers included, was not computed from these records"
BY_RECORD = (
    "what the dataset, the module and the loss make of a record depends, to the last bit, on that record, "
    "the parameters and draws that are independent of all records; they keep and show nothing of it"
)
COMPOSED = "composition"  # the method that the rounding of gradients does not harm


class Result(NamedTuple):
    """The last iterate and what its release costs, with all that was released before it."""

    x: Array
    guarantee: Guarantee


@dataclass(frozen=True, eq=False)
class ModuleTask:
    """A run on a dataset, and how it is carried out."""

    run: NoisySGD
    pairs: Pairs
    delta: float
    random_state: Any
    progress: bool
    ledger: Ledger | None

    def reserved(
        self, sentences: tuple[str, ...], before: NoisySecondMoments | None = None
    ) -> AbstractContextManager[Any]:
        """The reservation of all that is released, `before` included, which the data wait for.

        Raises NotApplicable where no analysis covers the run.
        """
        parts = [] if before is None else [before.guarantee(self.delta)]
        proven = together(*parts, self.run.guarantee(self.delta))
        return reserved(
            self.ledger,
            lambda: proven.assuming(*sentences),
            secret=self.ledger is None or is_secret(self.random_state),
        )

    def execute(self, gradients: PerRecordGradients, start: Array) -> Trained:
        """The last iterate, of what is reserved already."""
        return train(
            self.run,
            gradients,
            start,
            self.random_state,
            delta=self.delta,
            progress=self.progress,
        )

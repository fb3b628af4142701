"""Small runs of Opacus, as its users write them: made-up data, a linear head, an engine."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

import warnings
from dataclasses import dataclass
from typing import Any

import pabi
from support.frameworks import framework

framework("opacus")
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HEAD = pabi.Loss.logistic(feature_norm=1.0)
WITH_BIAS = pabi.Loss.logistic(feature_norm=1.5)  # rows of norm 1, and the constant 1


@dataclass
class OpacusRun:
    """An engine with what `make_private` returned; `first`: the parameters before training."""

    engine: Any
    module: Any
    optimizer: Any
    loader: Any
    criterion: Any
    first: Any

    @property
    def loss(self):
        """What is known of the loss of a record."""
        return WITH_BIAS if any(p.ndim == 1 for p in self.module.parameters()) else HEAD

    @property
    def x(self):
        """The parameters, as one vector."""
        return torch.cat([p.detach().reshape(-1) for p in self.module.parameters()]).numpy().copy()

    def step(self, rows, labels):
        """One step of the optimiser on a batch."""
        self.optimizer.zero_grad()
        self.criterion(self.module(rows).squeeze(-1), labels).backward()
        self.optimizer.step()

    def train(self, epochs, after_step=None, after_epoch=None):
        """What a user's loop does."""
        for _ in range(epochs):
            for rows, labels in self.loader:
                self.step(rows, labels)
                if after_step is not None:
                    after_step()
            if after_epoch is not None:
                after_epoch()


def records(n, d, seed=0):
    """Rows of norm 1 and their labels, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, d, generator=generator, dtype=torch.float64)
    rows = nn.functional.normalize(rows)
    return TensorDataset(rows, (rows[:, 0] > 0).to(torch.float64))


def opacus_run(
    *,
    n=60,
    d=3,
    outputs=1,
    batch=12,
    accountant="pabi",
    bias=False,
    optimizer=torch.optim.SGD,
    loader=None,
    settings=None,
    **private,
):
    """A head under an engine; `settings` are for torch's optimiser, `private` for Opacus."""
    module = nn.Linear(d, outputs, bias=bias).double()
    first = torch.cat([p.detach().reshape(-1) for p in module.parameters()]).numpy().copy()
    inner = optimizer(module.parameters(), **{"lr": 0.5, **(settings or {})})
    loader = loader or DataLoader(records(n, d), batch_size=batch, shuffle=True)
    criterion = nn.BCEWithLogitsLoss(reduction=private.get("loss_reduction", "mean"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the generator is not secure
        engine = PrivacyEngine(accountant=accountant)
        parts = engine.make_private(
            module=module,
            optimizer=inner,
            data_loader=loader,
            criterion=criterion,
            **{"noise_multiplier": 2.0, "max_grad_norm": 0.3, **private},
        )
    criterion = parts[2] if len(parts) == 4 else criterion
    return OpacusRun(engine, parts[0], parts[1], parts[-1], criterion, first)


DELTA = 1e-4
ADAPTIVE = {
    "clipping": "adaptive",
    "target_unclipped_quantile": 0.5,
    "clipbound_learning_rate": 0.2,
    "max_clipbound": 10.0,
    "min_clipbound": 0.1,
    "unclipped_num_std": 3.0,
}


def described_run(
    epochs=2, loss=None, scheduler=None, change=None, parts=False, look=False, **arguments
):
    """(run, description), before training; `look`: at the loader, too.

    `scheduler` is a function of the optimiser, `change` one of the description.
    """
    from pabi.integrations.opacus import from_opacus

    run = opacus_run(**arguments)
    stated = {
        "loss": loss or run.loss,
        "epochs": epochs,
        "scheduler": scheduler and scheduler(run.optimizer),
    }
    description = from_opacus(run.optimizer, run.loader, **stated)
    loader = {"loader": run.loader} if look else {}
    stated = change(description) if change else description
    run.engine.accountant.describe(stated, parts=parts, **loader)
    return run, description


def trained_in_parts(epochs=1, **arguments):
    """The same, trained in the parts of a memory manager."""
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    run, description = described_run(epochs, parts=True, **arguments)
    with BatchMemoryManager(
        data_loader=run.loader, max_physical_batch_size=4, optimizer=run.optimizer
    ) as parts:
        for rows, labels in parts:
            run.step(rows, labels)
    return run, description

"""What other libraries call the fields of a run, with what a run calls them."""

from __future__ import annotations

_MOMENTUM = "of which every iterate is charged (composition)"

OTHER_KEYWORDS = {
    "momentum": f"a run has no such field: write update=pabi.updates.Momentum({{}}), {_MOMENTUM}",
    "nesterov": f"belongs to the update: write update=pabi.updates.Momentum(0.9, nesterov={{}}), {_MOMENTUM}",
    "dampening": (
        "pabi.updates.Momentum has none: write update=pabi.updates.Momentum(…) without it, or "
        'update="other" for what is trained elsewhere'
    ),
    "weight_decay": "belongs to the loss, as its regulariser: write loss.with_l2({})",
    "l2": "belongs to the loss: write loss.with_l2({})",
    "lr": "a run calls it step_size: write step_size={}",
    "learning_rate": "a run calls it step_size: write step_size={}",
    "batch_size": "the scheme has the size: write batches=pabi.ShuffleOnce({}), or another scheme",
    "max_grad_norm": "a run calls it clip_norm: write clip_norm={}",
}

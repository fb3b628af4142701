"""What other libraries call the arguments of estimators, with what they are called here."""

from __future__ import annotations

_PLAIN = (
    "estimators take plain steps: train a pabi.NoisySGD with update=pabi.updates.Momentum(…) by "
    "pabi.learn.train, which charges every iterate (composition)"
)
OTHER_KEYWORDS = {
    "momentum": _PLAIN,
    "nesterov": _PLAIN,
    "dampening": _PLAIN,
    "weight_decay": "write l2={}",
    "C": "write l2, which is 1/(C·n) for n records",
    "alpha": "write l2, the λ of λ‖θ‖²/2 on the mean loss",
    "lr": "write step_size={}",
    "learning_rate": "write step_size={}",
    "batch_size": "write batches=pabi.ShuffleOnce({}), or another scheme",
    "max_iter": "write epochs, passes over the data; every pass is charged",
    "data_norm": "write feature_norm={}",
    "max_grad_norm": "write clip_norm={}",
    "target_range": "labels have no range: classes is the public label set",
}

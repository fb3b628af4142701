"""JAX: training of described runs with gradients by JAX, optax chains, and jax-privacy's batches."""

from pabi.integrations.jax.schemes import from_batch_selection
from pabi.integrations.jax.training import JaxTrained, train

__all__ = ["JaxTrained", "from_batch_selection", "train"]

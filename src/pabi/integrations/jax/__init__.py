"""JAX: training of described runs with gradients by JAX, optax chains, and jax-privacy's batches."""

from pabi.integrations.jax.training import JaxTrained, from_batch_selection, train

__all__ = ["JaxTrained", "from_batch_selection", "train"]

"""A description as the numbers that proofs speak of, step by step: moduli ω, sensitivities s, noises σ.

Which of the three views applies, the order of the batches and the modulus decide:

- `positions.View`: linear moduli, and a record whose uses are known once its place is (`KnownUses`,
  `SecretOrder`).
- `step_moduli.StepModuli`: any moduli.
- `sampled.SampledRun`: batches that are drawn afresh at every step (`FreshSubsets`).
"""

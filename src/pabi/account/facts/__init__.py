"""A description as the numbers that proofs speak of, step by step: moduli ω, sensitivities s, noises σ.

`demand` says whom a proof follows: one record, or those that a run forgets. A run has three views. Who knows
which steps use a record (its order), and what shape the moduli have, decide which of them an analysis reads.

- `positions.OrderedView`: linear moduli, as slopes, of a record with a place in the epoch (`KnownUses`,
  `SecretOrder`). Shifted interpolation, the secret order and the latest uses read it, and so do the
  solvers in `account.shifts.epochs` and a run's own `iteration`.
- `sampled.SampledRun`: batches drawn afresh at every step (`FreshSubsets`), seen from the end of the run. The
  one-sided and two-sided shifts read it.
- `step_moduli.StepModuli`: moduli of any shape, whoever is in a batch. The nonlinear analyses read it, beside
  what they need of one of the others. `Shapes` holds such moduli as arrays, for the solvers.

`positions.Growth` is no view of a run: it says how two paths of a diffusion part on a dissipative loss.
"""

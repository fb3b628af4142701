"""Optimal shifts: the smallest μ that the shifted interpolation of a noisy iteration proves.

Choose a step τ, take the distance z_τ that the two runs can have reached by then, and pay it off:
z_k = c_k·z_{k−1} + s_k − a_k ≥ 0 with z_t = 0. Then the last iterate is G(μ), μ² = Σ (a_k/σ_k)².
Every feasible choice is valid; these modules find the best.

Slopes known (linear moduli):
`isotonic`     the best payments from a given start, for arrays (weighted isotonic regression)
`start`        the best start, for arrays
`periodic`     both, for run-length encoded schedules, without writing them out
`epochs`       the shifts of the record with given uses, by whichever of these suits the schedule

Any moduli:
`nonlinear`    the closed form for moduli √(κδ² + h) without sensitivities
`start`        a first plan on a grid of distances
`nonlinear`    the plan improved by Newton's method, and cut down to what is feasible

Batches drawn afresh:
`random`       how much of a step's noise hides the shift, and how much the record's own pull
"""

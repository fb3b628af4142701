"""Optimal shifts: the smallest μ that the shifted interpolation of a noisy iteration proves.

Choose a step τ, take the distance z_τ that the two runs can have reached by then, and pay it off:
z_k = c_k·z_{k−1} + s_k − a_k ≥ 0 with z_t = 0. Then the last iterate is G(μ), μ² = Σ (a_k/σ_k)².
Every feasible choice is valid; these modules find the best.

`isotonic`  the best payments from a given start, for arrays (weighted isotonic regression)
`start`     the best start, for arrays
`periodic`  both, for run-length encoded schedules, without writing them out
"""

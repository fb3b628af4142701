"""Noise that is kept, and how rarely right draws fail a test of their law."""

import numpy as np

LEVEL = 1e-6  # at which a sampler is called wrong; seeds are fixed


class Recorder(np.random.Generator):
    """Standard normals that are kept, so that a chain can be followed by hand."""

    def __init__(self):
        super().__init__(np.random.PCG64(0))
        self.calls = []

    def standard_normal(self, size=None, *args, **kwargs):
        self.calls.append(super().standard_normal(size))
        return self.calls[-1].copy()

"""Kernels that autograd cannot see, with the gradient that their author gives.

NumPy, SciPy, ctypes, a C++ extension, Numba, Triton: whatever takes arrays or tensors.
"""

from backproof.definition.external.external import External, external

__all__ = ["External", "external"]

"""The kernels: Numba functions on flat arrays. Their twins in NumPy are in `qanat.backends.cpu.twins`."""

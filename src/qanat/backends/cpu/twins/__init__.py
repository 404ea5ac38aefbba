"""What the kernels compute, in plain NumPy: the same float32 operations in the same order.

A twin is slow and short. Tests hold kernel and twin together bit for bit. Sampling has none here: its
definition, `qanat.backends.reference.sampling`, is one already.
"""

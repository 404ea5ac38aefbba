"""What every backend computes in the same way, outside its kernels.

Knows: rotary angles, the counter-based generator, the weights that tokens are drawn by, what a choice
reports. Must not know: any backend, or how its arrays lie in memory.
"""

"""Several engines as one server, by Ray Serve (extra `ray`).

Knows: Ray Serve's deployments, handles and routers. Must not know: what a request means; HTTP is the same
application that `qanat serve` has, over `RayEngine` instead of an engine of its own.
"""

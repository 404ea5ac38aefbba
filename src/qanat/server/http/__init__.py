"""HTTP in OpenAI's dialect: bytes of requests in, bytes of answers out.

Knows: routes, headers, limits, keys, server-sent events, signals. Must not know: how a model answers; it sees
an `EngineClient`. Needs the extra `serve`.
"""

"""The other end of the wire: a client of any server that speaks OpenAI's dialect.

Knows: base URLs, server-sent events, OpenAI's objects as a client reads them, and what can go wrong on the
way, as sentences. Must not know: engines, models, terminals. What a server sends is read as hostile.
"""

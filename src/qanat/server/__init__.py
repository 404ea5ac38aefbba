"""The room of OpenAI's dialect: JSON bodies in, JSON objects out.

Knows: the fields of OpenAI's requests and answers, their bounds and their errors, batch files, HTTP (in
`http`; its client in `remote`), the process that an engine runs in; and `LLM`, as its users do. Must not
know: tensors, backends, how sequences share a step, terminals.
"""

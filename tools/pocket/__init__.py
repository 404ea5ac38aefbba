"""How the built-in model is made: its corpus, its vocabulary, its training and its export.

Nothing here is needed at run time; torch, transformers and tokenizers serve as training tools only.
`README.md` in this folder has the one command that repeats everything from a seed.
"""

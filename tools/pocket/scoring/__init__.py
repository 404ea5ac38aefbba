"""Scoring a checkpoint on prompts that its corpus never holds.

`cases` draws the prompts, `judges` says what is right, `new_wordings` holds questions written by hand,
`replies` asks the model through qanat, `table` holds the bars and sets out the figures.
"""

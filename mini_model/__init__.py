"""The subject of the book: a grammar, a small GPT that learns it, and its training step.

Importing this package imports nothing else: `mini_model.grammar` needs numpy, `mini_model.model` and
`mini_model.train` need torch.
"""

import os

PARENT = os.getppid()
"""Who started this process. Asked first of all: torch takes seconds to import, and by then torchrun may be gone."""

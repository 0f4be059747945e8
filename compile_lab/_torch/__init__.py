"""Every private name of torch that the instruments use, one file a stage of the compiler.

Nothing else in compile_lab imports from ``torch._dynamo``, ``torch._inductor``, ``torch._functorch`` or
``torch._logging``. A test asks each name for what the instruments expect of it, so a torch that moved one is told at
once and by name. Written for torch 2.13, run on 2.11 and 2.15, meant for 2.10 and later.
"""

"""The training step of GPT-2 scheduled by hand: which kernels run, in which order, on which bytes (see ``step``)."""

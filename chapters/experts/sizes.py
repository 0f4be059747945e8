"""The sizes of this chapter's layer, for what needs no torch, too."""

WIDTH, HIDDEN, EXPERTS, CHOICES = 64, 128, 8, 2
CAPACITY = 1.25
"""How many times its even share of the assignments an expert has room for."""

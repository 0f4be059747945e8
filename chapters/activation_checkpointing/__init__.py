"""Chapter 08, activation checkpointing."""

NUMBER = "08"

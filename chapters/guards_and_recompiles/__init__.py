"""Chapter 02, guards and recompiles."""

NUMBER = "02"

"""Chapter 23, long sequences."""

NUMBER = "23"

"""Chapter 16, return on investment."""

NUMBER = "16"

"""Chapter 19, return on investment."""

NUMBER = "19"

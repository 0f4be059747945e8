"""Chapter 18, when the compiler is part of the design."""

NUMBER = "18"

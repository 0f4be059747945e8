"""Chapter 22, when the compiler is part of the design."""

NUMBER = "22"

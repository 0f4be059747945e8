"""Chapter 09, memory lifetimes."""

NUMBER = "09"

"""Chapter 05, from Triton to PTX."""

NUMBER = "05"

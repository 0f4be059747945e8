"""Chapter 10, mixed precision."""

NUMBER = "10"

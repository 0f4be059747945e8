"""Chapter 12, pipeline bubbles."""

NUMBER = "12"

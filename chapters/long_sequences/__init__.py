"""Chapter 17, long sequences."""

NUMBER = "17"

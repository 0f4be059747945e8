"""Chapter 00, the eager baseline."""

NUMBER = "00"

"""Chapter 13, overlap."""

NUMBER = "13"

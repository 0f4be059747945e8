"""Chapter 11, four patterns."""

NUMBER = "11"

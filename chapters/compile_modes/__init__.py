"""Chapter 06, compile modes."""

NUMBER = "06"

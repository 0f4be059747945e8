"""Chapter 17, serving what was compiled."""

NUMBER = "17"

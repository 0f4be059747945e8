"""Chapter 21, serving what was compiled."""

NUMBER = "21"

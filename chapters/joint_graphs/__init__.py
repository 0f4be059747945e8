"""Chapter 03, joint graphs."""

NUMBER = "03"

"""Chapter 24, capstone: all of it on one step."""

NUMBER = "24"

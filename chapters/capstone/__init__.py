"""Chapter 19, capstone: all of it on one step."""

NUMBER = "19"

"""Chapter 15, GSPMD: annotate, compile, read."""

NUMBER = "15"

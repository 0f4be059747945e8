"""Chapter 01, graph breaks."""

NUMBER = "01"

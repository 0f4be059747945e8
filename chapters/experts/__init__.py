"""Chapter 16, mixture of experts."""

NUMBER = "16"

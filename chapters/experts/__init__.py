"""Chapter 22, mixture of experts."""

NUMBER = "22"

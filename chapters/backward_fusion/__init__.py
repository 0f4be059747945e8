"""Chapter 07, backward fusion."""

NUMBER = "07"

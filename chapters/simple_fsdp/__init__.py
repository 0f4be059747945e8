"""Chapter 23, letting the compiler schedule the step."""

NUMBER = "23"

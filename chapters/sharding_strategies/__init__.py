"""Chapter 14, sharding strategies."""

NUMBER = "14"

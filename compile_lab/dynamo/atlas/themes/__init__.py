"""The entries, a file for each theme."""

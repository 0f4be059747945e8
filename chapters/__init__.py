"""The book's chapters, a room for each: what serves one chapter alone, from its measurements to its exercises."""

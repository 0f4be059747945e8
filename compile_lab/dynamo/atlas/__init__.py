"""The break atlas: hundreds of ways to break a graph, what torch says of each, and how it is fixed."""

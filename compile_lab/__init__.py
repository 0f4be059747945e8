"""The instruments that the chapters of *The Compiled Training Step* look through.

Each module is one stage of the road from Python to a kernel. None is imported here: a notebook says what it uses.
"""

"""Ranks that part ways and wait for each other: who, at which collective, on which line; and programs that do it."""

from .divergence import Divergence
from .watch import watched, where

__all__ = ["Divergence", "watched", "where"]

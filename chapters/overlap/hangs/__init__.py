"""Ranks that part ways and wait for each other: who, at which collective, on which line; and programs that do it."""

from .parting import Parting
from .watch import watched, where

__all__ = ["Parting", "watched", "where"]

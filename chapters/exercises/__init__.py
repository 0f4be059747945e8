"""Is my answer right? ``check("01.2", answer)``; the registry is ``judging``, and each chapter has its modules."""

from .judging import check

__all__ = ["check"]

"""Exercises that plain Python judges, a module for each chapter: they are judged in the reader's page, too."""

"""What several chapters show: the models they look at, and recordings that more than one of them reads."""

"""What rounding makes of single operators, of chains and of a whole training run, eager and compiled."""

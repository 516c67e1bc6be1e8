"""What a number of the estimate says of itself: its bytes, its formula, its symbols, how sure it is."""

"""A pass over a model as a whole: its moments, and the most that it may take beyond them."""

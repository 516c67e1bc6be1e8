"""Measures the seconds of an update by verl's own worker with and without the skip; ``__main__`` runs it."""

"""The code of the trainer in a copy that a launch would run: read as text, never imported or run."""

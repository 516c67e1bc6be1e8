"""What a server imports before and behind all that it has to load."""

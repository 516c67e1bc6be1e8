"""What a validation found: its file, its verdicts, and the profile written from it."""

"""Words, bars and JSON: every way to show an answer. Nothing below this package prints or rounds."""

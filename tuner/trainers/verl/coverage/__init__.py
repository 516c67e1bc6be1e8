"""The rows of what the estimate makes of verl's keys, by topic; ``tables`` puts them together."""

"""From what a user has (YAML, overrides) to settings that know where they came from."""

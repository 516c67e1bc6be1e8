"""The rollout engines: what each of their releases does by itself, without a word of any trainer."""

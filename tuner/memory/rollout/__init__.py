"""The rollout engine: its share of the card, its KV cache, its CUDA graphs."""

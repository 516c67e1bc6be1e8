"""The rollout part: the residents of that phase, the KV cache beside them, and vLLM where it is installed."""

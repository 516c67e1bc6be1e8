"""The rollout on the device: blocks of the KV cache, decoding against them, and vLLM itself."""

"""The collectives part: what NCCL holds, what links give, and what settings between GPUs gain."""

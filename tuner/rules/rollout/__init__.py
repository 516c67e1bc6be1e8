"""Rules with the letters ROL: the rollout engine, its memory, its limits and its switches."""

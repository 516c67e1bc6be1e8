"""Rules with the letters SEQ: packed sequences, and sequences that GPUs share."""

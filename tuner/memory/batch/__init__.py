"""One micro-batch of a pass: what it holds, how it is padded, and which experts travel with it."""

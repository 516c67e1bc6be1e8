"""Rules with the letters BAT: how much goes into one micro-batch."""

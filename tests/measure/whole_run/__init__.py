"""verl's own trainer, run as a whole on random weights and held beside what the tuner predicts for it."""

"""The head inside verl: log-probabilities and entropy without logits, whatever head verl has."""

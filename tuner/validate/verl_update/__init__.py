"""The verl-update part: updates by verl's own worker, with its head, with ours and with the skip."""

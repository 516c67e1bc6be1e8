"""What our head does in a running verl: updates of its own engine with and without it."""

"""What the machine part runs on a GPU."""

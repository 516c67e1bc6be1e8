"""What every child runs first, and what it sees of this machine."""

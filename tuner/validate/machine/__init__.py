"""The machine part: memory of the card, what a bare process holds, and the rates that it reaches."""

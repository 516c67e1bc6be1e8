"""What is known about a set of checked inputs, and what a team has agreed on; no terminal in it."""

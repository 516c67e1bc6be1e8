"""Trainers: what one has to provide, what all of them share, and verl, which has a package of its own."""

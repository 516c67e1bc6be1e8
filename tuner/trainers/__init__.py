"""Trainers: what one has to provide, and verl, which provides it in a package of its own."""

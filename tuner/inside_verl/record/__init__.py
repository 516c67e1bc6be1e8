"""The record inside verl: memory, seconds and tokens of each phase of each step."""

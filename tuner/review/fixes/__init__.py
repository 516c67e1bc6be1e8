"""Fixes findings by splicing the text of the user's own file: whatever is not spliced stays byte for byte."""

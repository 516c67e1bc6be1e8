"""The settings of a project: the file that holds them, what it may say, and what it says of one input."""

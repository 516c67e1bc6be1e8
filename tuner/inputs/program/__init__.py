"""The Python program that a launch starts: where its file lies, and which configuration its code names."""

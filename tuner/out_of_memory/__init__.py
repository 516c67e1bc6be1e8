"""What a text says that was printed when memory ran out: the error, its figures and the stack of calls."""

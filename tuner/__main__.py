"""``python -m tuner``."""

from tuner.cli import program

if __name__ == "__main__":
    program()

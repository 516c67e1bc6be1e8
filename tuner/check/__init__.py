"""What ``tuner check`` finds in an input, before anybody prints it."""

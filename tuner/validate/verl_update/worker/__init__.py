"""verl's training worker on the device, and its updates measured."""

"""What Python does to the records of verl's store, measured on a host without a GPU."""

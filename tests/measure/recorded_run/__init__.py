"""Steps of verl's own workers with the record on."""

"""How verl's settings decide the fields of a workload: each rule once, to read it and to write it."""

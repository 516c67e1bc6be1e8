"""The skip inside verl: sequences without an advantage stay out of the update."""

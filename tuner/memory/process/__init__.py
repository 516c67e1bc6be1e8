"""What a process takes beyond its tensors: context, communicators, freed blocks."""

"""What a step of vLLM's engine takes where its host decides, as verl's server starts it and otherwise."""

"""Host memory of a node: states kept there, the batch of the controller, and images."""

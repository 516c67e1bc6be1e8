"""verl's policy loss inside the head: its gradients are made while the logits of the forward pass exist."""

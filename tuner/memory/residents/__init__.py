"""What stays on the card between passes: weights, gradients and optimizer states of the trainer."""

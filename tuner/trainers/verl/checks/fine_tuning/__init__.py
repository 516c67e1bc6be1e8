"""What verl's trainers of supervised fine-tuning refuse."""

"""What a run of a trainer printed: its configuration, the metrics of its steps, and how it ended."""

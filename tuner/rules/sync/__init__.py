"""Rules with the letters SYN: gathering and reducing weights, and handing them to the rollout."""

"""Rules with the letters MEM: what trainers keep in memory, and what waits on the host."""

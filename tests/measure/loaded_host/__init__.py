"""What a process keeps of the host after it has loaded weights and let go of them."""

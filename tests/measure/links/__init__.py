"""What moving weights costs beside its bytes: copies to the host, pages, the host's time of a tensor."""

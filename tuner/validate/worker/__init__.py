"""What workers of several parts share on the device."""

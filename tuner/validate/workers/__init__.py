"""What runs on the device, in processes of its own. Only here is torch imported."""

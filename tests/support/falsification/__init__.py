"""What the attacks share: instances whose privacy loss is known exactly, and files that claim too much."""

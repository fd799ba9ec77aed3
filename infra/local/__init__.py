"""The README's pictures, taken from a running system."""

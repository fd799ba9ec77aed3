"""Real services on loopback, made from package registries, for tests and for trying things out."""

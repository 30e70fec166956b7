"""Real servers and tools for tests and scenarios."""

"""Real parts to lay hands on, shared with the tests."""

"""Runs and tasks that go on after they were replaced."""

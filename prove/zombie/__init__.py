"""Zombies: runs and tasks that continue after they were replaced."""

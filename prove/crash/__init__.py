"""Crash scenarios: each job is killed at every place and gets every commit outcome, then is rerun."""

"""Looks at every pipeline for sensors, checks and metrics."""

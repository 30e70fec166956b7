"""Telling people by webhook what happened to a pipeline."""

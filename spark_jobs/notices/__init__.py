"""Webhook notices about a pipeline's commits and failures."""

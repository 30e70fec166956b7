"""Schemas from registries of several kinds, requested once and stored."""

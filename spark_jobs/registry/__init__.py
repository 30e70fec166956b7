"""Schemas from a registry with Confluent's API, requested once and stored."""

"""Schemas from a registry that speaks Confluent's API: asked once, kept, the same for ever after."""

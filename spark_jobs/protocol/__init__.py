"""Vocabulary of all packages, and the rules of the commit protocol. Pure."""

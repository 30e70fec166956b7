"""The words every room speaks, and the rules of the commit protocol that need nothing else. Pure."""

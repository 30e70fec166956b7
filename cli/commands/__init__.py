"""One file a command: what a person types, and what is printed."""

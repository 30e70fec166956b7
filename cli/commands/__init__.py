"""One file a command (and one for the developers'): what a person types, and what is printed."""

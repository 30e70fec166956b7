"""Recovery of unfinished attempts: mark, adopt, hold or sweep them before new work begins."""

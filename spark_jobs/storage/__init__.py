"""Storage: paths and their comparison, listings, errors, and the state folder."""

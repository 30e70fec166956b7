"""Files: paths and how they compare, listings, what an error of a store means, the state folder."""

"""Question sets in the bundled model's reach, made from seeds."""

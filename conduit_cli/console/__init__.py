"""The terminal: one output object, progress, and errors as sentences."""

"""Models: which one is used, where its weights are, and how it is loaded."""

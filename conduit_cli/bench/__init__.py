"""Measuring policies over question sets: quality, cost and allocation, with intervals. Knows no terminal."""

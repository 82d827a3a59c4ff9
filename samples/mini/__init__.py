"""The bundled reader: page and question generators, training, export and evaluation.

Every step is a module: ``python -m samples.mini.<step>`` from the repository root.
"""

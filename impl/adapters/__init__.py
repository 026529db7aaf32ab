"""Adapters to other people's systems: each file is a program of its own, and runs in an environment of its own.

They speak the adapter protocol through the helper in ``kit/``, and import nothing else of this project.
"""

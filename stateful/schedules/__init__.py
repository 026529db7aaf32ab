"""Schedules: a few processes of a subject in one thread, run in every order of their statements within a bound.

``lanes`` switches between them at boundaries, ``footprint`` says which transitions commute, ``search`` goes through
the schedules and knows nothing of dispatchers, ``system`` puts a real subject on the lanes and judges every node.
"""

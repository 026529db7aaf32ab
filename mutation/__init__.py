"""How many small changes of ``model/`` and ``impl/`` the tests notice: ``python -m mutation``, see docs/mutation.md.

May import the standard library; runs mutmut, mypy and pytest as commands, on a copy of the tree. Nothing imports it.
"""

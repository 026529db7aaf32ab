"""Attempts on a virtual clock: every script of a sink's answers, and an event from outside before every turn.

- ``choices``: ``Choices``, every way through a run's questions; ``sink``: ``ScriptedSink``, which counts what it is sent;
- ``system``: ``AttemptSystem``, one operation of a subject, its ledger in memory; ``isolations``: threads and processes
  without either; ``plan``: ``Plan``, what a run met, and how it is written down;
- ``judge``: what a run came to against the rule of ``model.attempts`` and the promises; ``search``: all runs;
  ``reduce``: the shortest that still breaks a promise.
"""

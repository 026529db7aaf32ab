"""Storage: what a subject writes is recorded, and every state that a power cut may leave is made from the record.

- ``log``: ``Log``, the operations on all files below one folder; ``disk``: ``Disk``, what of them is durable;
- ``vfs`` and ``recorder``: the way into SQLite; ``files``: the same for other files; ``plan``: ``FaultPlan``;
- ``ways``: which copy of SQLite that is, the module's own or, in the ``apsw`` modules, the one that ``apsw`` brings;
- ``crashes``: ``Crashes``, ``Bounds``, ``CrashState``; ``materialise``: states as real files, and databases looked into;
- ``medium``: ``RecordingMedium``; ``rig``: ``RecordingRig``, a whole subject on it.

Nothing here knows what the files mean, or judges a state; only ``rig`` knows that there is a dispatcher.
"""

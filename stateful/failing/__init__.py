"""Storage faults: the n-th storage call of an operation fails, n = 1, 2, 3 ... until none is left.

``kinds`` lists what can fail and arms it, ``locks`` and ``files`` are two ways to fail, ``rig`` is what it is done on;
``sweeper`` fails an operation at each of its calls, and ``judging`` says which worlds that may leave. ``damage`` is for
what was wrong before anybody opened it. It may import the engines' tools and ``storage``; it must never know what a
dispatcher does about a fault.
"""

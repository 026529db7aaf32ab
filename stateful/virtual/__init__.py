"""Virtual time: an asyncio event loop whose clock jumps to the next timer, and whose every turn may be looked at.

It knows coroutines, timers and nothing of dispatchers. Nothing here sleeps, and no thread and no socket is made.
"""

from stateful.virtual.loop import Frozen, TooManyTurnsError, VirtualLoop

__all__ = ["Frozen", "TooManyTurnsError", "VirtualLoop"]

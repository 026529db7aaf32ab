"""Storage: what a subject writes is recorded, and every state that a power cut may leave is made from the record.

``vfs`` and ``files`` record databases and other files into one ``log``; ``disk`` says what of a log is durable and
what is pending; ``crashes`` enumerates what may survive, and puts it into a folder. ``medium`` and ``rig`` run a whole
subject on it. Nothing here knows what a dispatcher is or what its files mean; only ``rig`` knows that there is one.
"""

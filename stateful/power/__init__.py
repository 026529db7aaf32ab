"""Power cuts: what a subject's stores hold when the power fails at any point of an order, and what becomes of it then.

``recorded`` runs an order and keeps what was known after each step, ``aftermath`` reads what one crash state left,
``cutter`` holds each against the worlds that the model allows and lets the subject recover in it, ``cut`` is one power
cut as data, for a trace. What a disk may lose is ``stateful.storage``'s knowledge.
"""

"""Systems of other people, out of process: an adapter a system, a child process a worker, a line a message.

It drives an adapter through orders, counts effects at sinks of its own, and judges what the system claims. See
docs/protocol.md for what is said on the wire and docs/claims.md for how a claim is judged.
"""

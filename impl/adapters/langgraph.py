# /// script
# requires-python = ">=3.10"
# dependencies = ["langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2"]
# ///
"""LangGraph with its SQLite checkpointer: a thread under our key, an approval node that interrupts, a node that sends.

``start`` gives a new thread its input, and resumes one that an error or a death has stopped (input None); ``decide``
resumes the interrupt. Checkpoints are written with durability "sync", the most durable mode.
"""

from typing import Any, TypedDict

from survives_adapter import Claim, Denied, Pending, Refused, System, serve
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

DURABLE = "docs.langchain.com, oss/python/langgraph/durable-execution, "


class State(TypedDict, total=False):
    """What a thread holds."""

    key: str
    payload: Any
    receipt: str
    denied: bool


class LangGraph(System):
    """One graph."""

    name, version = "langgraph", "1.2.24 with langgraph-checkpoint-sqlite 3.1.2"
    notes = (
        "its documentation asks for idempotent nodes: one that began and did not end is run again; "
        "a thread that was begun with another input is not given a new one by this adapter, which is its own refusal"
    )
    claims = [
        Claim(
            "effect-kept",
            "A task that began and did not complete is run again when its thread is resumed.",
            where=DURABLE + "Determinism and consistent replay",
        ),
        Claim(
            "first-result",
            "What has completed is not repeated on resuming: its result comes from the checkpoint.",
            where=DURABLE + "Requirements",
        ),
        Claim("true-completion", "The state of each executed step is saved.", where=DURABLE + "introduction"),
        Claim(
            "approval-needed",
            "A critical action waits in an interrupt until it is approved; rejected, it is not done.",
            where="docs.langchain.com, oss/python/langgraph/interrupts, Approve or reject",
        ),
        Claim(
            "progress",
            "A thread that a failure stopped can be resumed from its last recorded state.",
            choice="alone",
            where=DURABLE + "introduction; Resuming workflows",
        ),
    ]

    def open(self):
        def approval(state):
            is_approved = interrupt({"payload": state["payload"]})
            return Command(goto="proceed" if is_approved else "cancel")

        def proceed(state):
            return {"receipt": self.effect(state["key"], state["payload"])}

        def cancel(state):
            return {"denied": True}

        builder = StateGraph(State)
        builder.add_node("approval", approval, destinations=("proceed", "cancel"))
        builder.add_node("proceed", proceed)
        builder.add_node("cancel", cancel)
        builder.add_edge(START, "approval")
        builder.add_edge("proceed", END)
        builder.add_edge("cancel", END)
        self.opened = SqliteSaver.from_conn_string(str(self.folder / "checkpoints.sqlite"))
        self.graph = builder.compile(checkpointer=self.opened.__enter__())

    def run(self, key, given):
        self.graph.invoke(given, {"configurable": {"thread_id": key}}, durability="sync")

    def state(self, key):
        return self.graph.get_state({"configurable": {"thread_id": key}})

    def start(self, key, payload):
        state = self.state(key)
        if not state.values:
            self.run(key, {"key": key, "payload": payload})
        elif state.values["payload"] != payload:
            raise Refused("the thread was begun with another input")
        elif state.next and not state.interrupts:
            self.run(key, None)
        state = self.state(key)
        if state.next:
            raise Pending("interrupted" if state.interrupts else "stopped")
        if "denied" in state.values:
            raise Denied("rejected")
        return state.values["receipt"]

    def decide(self, key, payload, verdict):
        self.run(key, Command(resume=verdict == "grant"))

    def observe(self, key):
        state = self.state(key)
        return {"values": state.values, "next": state.next}


serve(LangGraph)

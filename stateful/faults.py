"""The sink as an engine scripts it: it acts or not, and it answers or not."""

from __future__ import annotations

from impl.protocol import Json, NoAnswerError, Request, SinkAnswer, Verdict
from impl.sqlite import SqliteSink
from model.words import Reply


class ScriptedSink:
    """Stands between a dispatcher and the real sink, and does with the next request what the script says.

    A second request in the same operation finds the sink well again, so that a dispatcher which repeats a send on its
    own is seen to do so.
    """

    def __init__(self, sink: SqliteSink) -> None:
        self._sink = sink
        self.reply = Reply.DONE

    def apply(self, request: Request) -> SinkAnswer:
        """Send one request, as scripted. Raises NoAnswerError where the answer, or the request, is lost."""
        reply, self.reply = self.reply, Reply.DONE
        if reply is Reply.LOST:
            raise NoAnswerError("the request was lost")
        if reply is Reply.TRANSIENT or reply is Reply.PERMANENT:
            return self._sink.reject(request, permanent=reply is Reply.PERMANENT)
        answer = self._sink.apply(request)
        if reply is Reply.SILENT and answer.verdict in {Verdict.DONE, Verdict.REPLAYED}:
            raise NoAnswerError("the answer was lost")
        return answer

    def lookup(self, key: str, payload: Json, token: int) -> SinkAnswer:
        """Ask what became of a key."""
        return self._sink.lookup(key, payload, token)

"""What all endpoints of one server share."""

from __future__ import annotations

from dataclasses import dataclass, field

from qanat.server.engine_client import EngineClient
from qanat.server.http.gate import Gate
from qanat.server.http.metrics import Metrics
from qanat.server.http.settings import ServerSettings

__all__ = ["Service"]


@dataclass
class Service:
    """An engine behind HTTP."""

    engine: EngineClient
    settings: ServerSettings
    requests: Gate = field(init=False)
    """Those that are answered with generated text."""
    questions: Gate = field(init=False)
    metrics: Metrics = field(init=False)

    def __post_init__(self) -> None:
        self.requests = Gate(self.settings.most_requests)
        self.questions = Gate(self.settings.most_questions)
        self.metrics = Metrics(self.settings.names[0])

    @property
    def state(self) -> str:
        """`ready`, or why nothing is answered now: `loading`, `dead`, `stopping`."""
        return "stopping" if self.requests.closed else self.engine.state

    def stop_taking(self) -> None:
        """From here on nobody new is answered."""
        self.requests.closed = self.questions.closed = True

"""The tool boundary: where calls that a model made up become operations, each with exactly one result.

- ``tool``: ``Tool``, what can be called, what a tool is given, and what it may raise;
- ``boundary``: ``ToolBoundary``, which takes calls and answers each with one ``ToolResult``;
- ``calls``: how a call is read, and refused before anything is stored; ``results``: what comes back;
- ``sink``: the tools as the runner sees them.

What must outlive the process stands in the dispatcher's ledger alone. It may import the protocol, the approvals and
the runner of ``impl``, never the ledger; and it never approves anything.
"""

from impl.tools.boundary import BadScopeError, BudgetError, ToolBoundary
from impl.tools.results import Code, Problem, Status, ToolResult
from impl.tools.tool import (
    BadToolNameError,
    BadToolSchemaError,
    Found,
    NameTakenError,
    NotAsyncError,
    NotAToolError,
    StaleTokenError,
    Tool,
    ToolBusyError,
    ToolError,
    ToolRefusedError,
    ToolRequest,
)

__all__ = [
    "BadScopeError",
    "BadToolNameError",
    "BadToolSchemaError",
    "BudgetError",
    "Code",
    "Found",
    "NameTakenError",
    "NotAToolError",
    "NotAsyncError",
    "Problem",
    "StaleTokenError",
    "Status",
    "Tool",
    "ToolBoundary",
    "ToolBusyError",
    "ToolError",
    "ToolRefusedError",
    "ToolRequest",
    "ToolResult",
]

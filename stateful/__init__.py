"""How it is put to the test: engines, faults, verdicts, reports, the pytest plugin and the command line.

It may import ``impl`` and ``model``. Importing it loads next to nothing: the plugin is part of every pytest run in its
environment. It must never share code between a subject and the oracle that reads the subject's stores.
"""

import sys

if sys.argv and sys.argv[0].endswith("survives"):
    from stateful.early import watch

    watch()

"""Adapters that break the protocol, each in a few lines after the preamble, and what is to be said of it."""

from __future__ import annotations

from attrs import frozen

from stateful.foreign.channel import LINE_MAX


@frozen
class Bad:
    """A bad adapter, and what is said of it."""

    body: str
    says: str
    patience: float = 60.0


ANSWERING = "hello()\nr = hear()\n"
HELD = ANSWERING + "enter(r)\n"
BAD = {
    # -- what is no message
    "noise": Bad(
        HELD + "write('hello\\n'); hear()",
        "line 3 of its standard output is noise, no JSON object: 'hello'; print to the standard error",
    ),
    "noise that is no text": Bad(
        ANSWERING + r"os.write(1, b'\xff\xfe\n'); hear()", r"line 2 of its standard output is noise"
    ),
    "an empty line": Bad(
        ANSWERING + "write('\\n'); hear()", "line 2 of its standard output is noise, no JSON object: ''"
    ),
    "a list": Bad(
        ANSWERING + "write('[1]\\n'); hear()",
        "line 2 of its standard output is [1], not a JSON object; answer with one object a line",
    ),
    "nested too deeply": Bad(
        ANSWERING + "write('[' * 100000 + '\\n'); hear()", "line 2 of its standard output is noise"
    ),
    "a number without end": Bad(
        ANSWERING + "write('{\"id\": ' + '1' * 5000 + '}\\n'); hear()", "line 2 of its standard output is noise"
    ),
    "a torn last line": Bad(
        ANSWERING + "write('{\"id\": 1'); sys.exit(0)",
        "line 2 of its standard output is torn: '{\"id\": 1'; end each line with a newline",
    ),
    # -- too much
    "a flood of lines": Bad(
        HELD.replace("enter(r)", "write('{}\\n' * 66)") + "hear()",
        "it floods its standard output: line 67 came although nobody asked for more than line 2; answer once a request",
    ),
    "a flood without end": Bad(
        ANSWERING + "while True: write('{}\\n' * 1000)", "it floods its standard output: line"
    ),
    "one endless line": Bad(
        ANSWERING + "while True: write('x' * 65536)",
        f"line 2 of its standard output is longer than {LINE_MAX:,} bytes; a message is one short object",
    ),
    "a flood at hello": Bad("while True: write('{}\\n' * 1000)", "it floods its standard output: line"),
    "held without end, and never read": Bad(
        ANSWERING
        + """
import fcntl, struct, termios
fcntl.fcntl(0, 1031, 4096)  # F_SETPIPE_SZ: its standard input takes less
def waiting():
    return struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, bytes(4)))[0]
n = 0
while True:
    n, before = n + 1, waiting()
    say(id=1, held="effect-exit", n=n)
    while waiting() == before: time.sleep(0.0005)
""",
        "it has not read its standard input within 3 s; see whether it hangs, or raise --patience",
        patience=3.0,
    ),
    # -- answers about something else
    "twice": Bad(
        HELD + "say(id=1, outcome='done'); say(id=1, outcome='done'); hear()",
        "line 4 is about request 1, and request 2 was asked; it has answered that one before; answer each request once",
    ),
    "out of order": Bad(
        ANSWERING + "say(id=2, outcome='done'); say(id=1, outcome='done'); hear()",
        "line 2 is about request 2, and request 1 was asked; answer each request once, in turn",
    ),
    "for another request": Bad(
        ANSWERING + "say(id=7, outcome='done'); hear()",
        "line 2 is about request 7, and request 1 was asked; answer each",
    ),
    "for no request": Bad(
        ANSWERING + "say(outcome='done'); hear()", "line 2 is about request None, and request 1 was asked"
    ),
    "hello for another request": Bad(
        "hello(id=3); hear()", "line 1 is about request 3, and request 0 was asked (hello)"
    ),
    # -- hello
    "an unknown version": Bad(
        "hello(version=2); hear()",
        'line 1: it speaks version 2 of the protocol, and this survives speaks version 1; answer hello with "version": 1',
    ),
    "no version": Bad("hello(version=None); hear()", "line 1: it speaks version None of the protocol"),
    "an unknown ability": Bad(
        "hello(abilities=['fly']); hear()",
        "line 1: hello is answered with something that is no answer: there is no ability 'fly'; the abilities",
    ),
    "an ability that is a list": Bad(
        "hello(abilities=[[]]); hear()", "there is no ability []; the abilities are recover,"
    ),
    "abilities that are no list": Bad("hello(abilities='recover'); hear()", "\"abilities\" is 'recover', not a list"),
    "a lease without its length": Bad(
        "hello(abilities=['lease']); hear()", 'it has the ability "lease" and no "lease_ms"; say how long'
    ),
    "an unknown claim": Bad(
        "hello(claims=[{'id': 'at-most-twice'}]); hear()",
        "there is no claim 'at-most-twice'; the claims are at-most-once,",
    ),
    "a claim that is none": Bad(
        "hello(claims=['at-most-once']); hear()", "'at-most-once' is no claim: it is an object with"
    ),
    "claims that are no list": Bad("hello(claims=3); hear()", '"claims" is 3, not a list'),
    "a claim twice": Bad(
        "hello(claims=[{'id': 'in-doubt'}] * 2); hear()", "claimed twice: in-doubt; leave one of them"
    ),
    "a claim without its choice": Bad(
        "hello(claims=[{'id': 'progress'}]); hear()",
        "claim 'progress' is made with choice ''; it is one of alone, operator",
    ),
    "a lease that is no number": Bad(
        "hello(lease_ms='1 s'); hear()", "\"lease_ms\" is '1 s'; it is a number, 0 or more"
    ),
    "a lease below 0": Bad("hello(lease_ms=-1); hear()", '"lease_ms" is -1; it is a number, 0 or more'),
    "a lease of an hour": Bad(
        "hello(lease_ms=3600000); hear()",
        '"lease_ms" is 3600000; it is waited for in real time: set the lease to 60000 at most',
    ),
    "capabilities that are no list": Bad("hello(capabilities=3); hear()", '"capabilities" is 3, not a list'),
    "a system without a name": Bad("hello(system=None); hear()", '"system" is None, not a string'),
    "an unknown style": Bad("hello(style='dance'); hear()", "\"style\" is 'dance'; it is one of call, step"),
    "an error at hello": Bad(
        "hear(); say(id=0, error='no database'); hear()", "line 1: it cannot be opened: 'no database'"
    ),
    # -- answers that are none
    "an unknown outcome": Bad(
        ANSWERING + "say(id=1, outcome='perhaps'); hear()",
        "line 2: the outcome is 'perhaps'; it is one of denied, done, failed",
    ),
    "an outcome that is a list": Bad(
        ANSWERING + "say(id=1, outcome=[]); hear()", "line 2: the outcome is []; it is one of denied"
    ),
    "no outcome": Bad(ANSWERING + "say(id=1); hear()", "line 2: the outcome is None; it is one of denied"),
    "an error": Bad(ANSWERING + "say(id=1, error='no start'); hear()", "line 2: it says 'no start'"),
    "held at an unknown point": Bad(
        ANSWERING + "say(id=1, held='somewhere', n=1); hear()",
        "line 2: it is held at 'somewhere'; it can be held at effect-enter, effect-exit, statement",
    ),
    "held without a number": Bad(
        ANSWERING + "enter(r, n=None)", 'line 2: it is held without a number "n" to be continued by'
    ),
    "held with another key": Bad(
        ANSWERING + "r['with']['key'] = 'mine'; enter(r)",
        "line 2: the effect's key is 'mine'; hand in the key of the call",
    ),
    "held with a key that is no number": Bad(
        ANSWERING + "r['with']['key'] = 'k\\u00b2'; enter(r)",
        "line 2: the effect's key is 'k²'; hand in the key of the call",
    ),
    # -- silence and death
    "never answers hello": Bad(
        "hear(); hear()", "it has not answered within 0.3 s; see whether it hangs, or raise --patience", patience=0.3
    ),
    "never answers a start": Bad(
        ANSWERING + "hear()",
        "it has not answered within 1.5 s; see whether it hangs, or raise --patience",
        patience=1.5,
    ),
    "ignores SIGTERM": Bad(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "hear()\nwhile True: time.sleep(60)",
        "it has not answered within 0.3 s",
        patience=0.3,
    ),
    "floods its standard error and never answers": Bad(
        "hear()\nwhile True: os.write(2, b'x' * 4000 + b'\\n')",
        "it has not answered within 0.3 s; its last words: 'xxx",
        0.3,
    ),
    "dies at hello": Bad(
        "hear(); raise ValueError('no such setting')",
        "it ended with status 1 after line 0 of its standard output; its last words: 'ValueError: no such setting'",
    ),
    "ends in order at hello": Bad(
        "hear()", "it ended with status 0 after line 0 of its standard output; it is to end"
    ),
    "dies between two answers": Bad(
        HELD + "raise ValueError('lost')",
        "it ended with status 1 after line 2 of its standard output; its last words: 'ValueError: lost'; it is to end",
    ),
    "is killed": Bad(
        HELD + "os.kill(os.getpid(), signal.SIGKILL)", "it was killed by SIGKILL after line 2 of its standard output"
    ),
    "dies, and another holds its pipes": Bad(
        ANSWERING + "subprocess.Popen(['sleep', '600'], start_new_session=True); sys.exit(4)",
        "it ended with status 4 after line 1 of its standard output",
    ),
    "closes its standard output": Bad(
        ANSWERING + "os.close(1); time.sleep(600)",
        "it goes on after line 1 of its standard output and has closed a pipe; keep its standard input and output open",
    ),
    "closes its standard input": Bad(
        ANSWERING + "os.close(0); say(id=1, outcome='pending'); time.sleep(600)",
        "it goes on after line 2 of its standard output",
    ),
}

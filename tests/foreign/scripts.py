"""Adapters without the helper, which start in 10 ms: what each begins with, and a small system of one file a key."""

PREAMBLE = """\
import json, os, signal, subprocess, sys, time
holds = 0
CLAIMS = [{"id": "at-most-once"}, {"id": "true-completion"}]
def write(text):
    os.write(1, text.encode())
def say(**message):
    write(json.dumps(message) + "\\n")
def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)
def hello(**more):
    global folder
    folder = hear()["folder"]
    about = {"id": 0, "version": 1, "style": "call", "system": "tiny", "claims": CLAIMS}
    say(**{**about, **more})
def held(request, point, **more):
    global holds
    holds += 1
    say(**{"id": request["id"], "held": point, "n": holds, **more})
    return hear()
def enter(request, **more):
    given = request["with"]
    return held(request, "effect-enter", **{"key": given["key"], "payload": given["payload"], **more})
def leave(request):
    return held(request, "effect-exit")
def send(request):
    told = {**enter(request), **leave(request)}
    if "raise" in told: return {"outcome": "failed", "reason": told["raise"]}
    return {"outcome": "done", "result": told["receipt"]}
def serve(start):
    while True:
        request = hear()
        say(id=request["id"], **(start(request) if request["do"] == "start" else {"outcome": "done"}))
        if request["do"] == "close":
            sys.exit(0)
"""

QUICK = """
way = sys.argv[1]
CLAIMS = [dict(zip(("id", "choice"), claim.split(":"))) for claim in sys.argv[2].split(",")]
hello(claims=CLAIMS, abilities=sys.argv[3:])
def keep(path, text):
    with open(path + ".new", "w") as out: out.write(text)
    os.replace(path + ".new", path)
def start(request):
    path = folder + "/" + request["with"]["key"]
    kept = open(path).read() if os.path.exists(path) else None
    if way == "once more" and kept == "" and not os.path.exists("seen"):
        open("seen", "w").close()
        return send(request)
    if kept:
        return {"outcome": "done", "result": kept}
    if kept is not None and way != "sends again":
        return {"outcome": "unknown", "reason": "it was begun"}
    if way == "sends never":
        return {"outcome": "pending"}
    if way == "says done and never sends":
        return {"outcome": "done", "result": "r1"}
    keep(path, "r1" if way == "marks before" else "")
    answer = send(request)
    keep(path, answer.get("result", "r1" if way == "marks before" else ""))
    return answer
serve(start)
"""
"""A system of one file a key that starts in 10 ms. It is honest, or sins in the way that its first argument says."""

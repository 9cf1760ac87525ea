"""The bounds of everything that comes from outside, in one table: what is bounded, how, and why.

Every door uses these rows: requests of clients, job files, greetings and reports of nodes, connections.
`docs/security.md` prints them, in the order of `tests/documents/bounds_page.py`.
"""

from typing import NamedTuple

import msgspec


class Bound(NamedTuple):
    """The limits of one value: `most` (and `least`, for numbers) of `what`, in `unit`, and the reason."""

    what: str
    most: int
    unit: str
    why: str
    least: int | None = None

    def __str__(self) -> str:
        """Return the bound in words, as ``256 characters`` or ``1 to 16,384``."""
        span = f"{self.most:,}" if self.least is None else f"{self.least:,} to {self.most:,}"
        return f"{span} {self.unit}".strip()


MB = 1024 * 1024

# Numbers
INTEGER = Bound(
    "integers of a request: ids, offsets, cursors, counts",
    2**53 - 1,
    "",
    "the largest that JSON readers read exactly; SQLite takes 2^63",
    least=-(2**53) + 1,
)
CODE = Bound("exit codes", 2**31 - 1, "", "32 bits on both systems", least=-(2**31))
SIZE = Bound("sizes of jobs and tasks, memory in MB, counts", 2**31 - 1, "", "no machine has more", least=1)
SWEEP = Bound("start, end and increment of a sweep", 10**15, "", "exact in every language", least=-(10**15))
INSTANCES = Bound("instances of a task", 1_000_000, "", "a sweep is a range; its rows are not")
RUN_TIME = Bound("run time limits", 10**10, "seconds", "317 years; Infinite is no limit")
OWNER_LIMIT = Bound(
    "a limit of a user, a project or a group", 10**9, "", "no cluster has more of anything", least=0
)
MINUTES_LIMIT = Bound(
    "a limit of processor-minutes or GPU-minutes",
    10**13,
    "minutes",
    "a million processors, 19 years",
    least=0,
)
PRIORITY_WEIGHT = Bound(
    "a weight of a factor of the priority", 10**9, "", "sums of products stay exact", least=-(10**9)
)
USAGE_WEIGHT = Bound("a weight of what usage counts", 10**6, "", "sums stay exact", least=0)
WEIGHTED_GPU_KINDS = Bound("kinds of GPUs with a weight", 64, "", "more than a cluster has", least=0)
SHARE = Bound("a share of a user or a project", 10**6, "", "only their ratios count", least=0)
TIME = Bound("points of time", 253402300799, "seconds since 1970", "the year 9999", least=0)

# Texts
NAME = Bound(
    "names of jobs, tasks, groups, projects, nodes, users ...", 256, "characters", "they are in lists"
)
NOTE = Bound("descriptions, messages, reasons, comments", 4096, "characters", "they are in lists")
WORDS = Bound("a sentence that a node reports", 4096, "characters", "longer ones are cut")
SCHEDULE_TEXT = Bound(
    "a schedule, or a time zone, of a recurring job", 256, "characters", "longer than any that people write"
)
COMMAND = Bound("a command line", 131_071, "bytes", "the longest argument of a program on Linux")
SECRET = Bound("a delegated proxy or token", 32_768, "characters", "a chain of certificates has about 8,000")
SCRIPT = Bound("the text of a script", MB, "characters", "it is sent to nodes with its job")
PATH = Bound("a path", 4095, "bytes", "the longest path that Linux opens")
PATTERN = Bound("a regular expression for names", 1024, "characters", "each is tried on every node")
ADDRESS = Bound("an e-mail address", 320, "characters", "RFC 3696")
VARIABLE = Bound("an environment variable with its value", 131_071, "bytes", "as a command line")
JOB_FILE = Bound(
    "a job file that is kept with its jobs",
    65_536,
    "characters",
    "it stays in the journal; of longer ones none",
)
WORD = Bound("any other text of a description", 65_536, "characters", "kept for the export of a job")

# Lists
ENVIRONMENT = Bound(
    "the environment of a job or of a task", MB, "bytes", "Linux has 2 MB for all of a program"
)
KEPT = Bound("words of a dialect that are only kept, of a job or task", MB, "bytes", "kept for the export")
LIST = Bound("names in a list", 10_000, "entries", "nodes of the largest clusters")
SHORT_LIST = Bound(
    "ranges, licences, keys, alternatives, limits in a list", 1000, "entries", "compared one by one"
)
LIMITED_OWNERS = Bound(
    "users, projects, or groups, with limits of their own",
    10_000,
    "entries",
    "setting them takes the head 0.1 s",
)
GEOMETRY = Bound("processes in a distribution that is drawn", 100_000, "entries", "each has its place")
TASKS = Bound("tasks in one request", 3000, "tasks", "takes the head about 0.1 s; add more with hn job add")
TASKS_OF_FILE = Bound("tasks in one job file", 20_000, "tasks", "other requests wait about 0.3 s")
SCRIPT_OPTIONS = Bound(
    "options of a batch script, all lines together", 65_536, "characters", "other requests wait 0.5 s at most"
)
SUBMIT_VALUE = Bound("a value of a submit file, expanded", 131_071, "characters", "as a command line")
SUBMIT_TEXT = Bound(
    "what the macros of a submit file expand to",
    16 * MB,
    "characters",
    "read within 10 s, beside other requests",
)
QUEUE_COMMANDS = Bound("queue commands of a submit file", 20_000, "queue commands", "as tasks in a job file")
TASKS_OF_JOB = Bound(
    "tasks of a job, or of a group that is submitted in one step",
    20_000,
    "tasks",
    "a sweep counts as one task",
)
COUNTERPARTS = Bound(
    "ranges of numbers that a job shares with those whose instances it waits for",
    10_000,
    "ranges",
    "one for each two sweeps; of sweeps with different increments one for each number",
)
DESCRIPTION = Bound("a job with all its tasks", 16 * MB, "bytes, encoded", "it is sent to nodes as a whole")
DESCRIPTIONS = Bound(
    "descriptions of the jobs of a user that have not ended", 64 * MB, "bytes, encoded", "memory"
)
SMALL_DESCRIPTION = Bound("a description that is not counted there", 4096, "bytes, encoded", "quick to count")
RECURRING_DESCRIPTIONS = Bound(
    "descriptions of the recurring jobs of a user, and the text of their table",
    8 * MB,
    "bytes, encoded",
    "they stay in memory",
)
RECURRING_UNFINISHED = Bound(
    "jobs of a recurring job that have not ended",
    1000,
    "jobs",
    "each is looked up; further times are skipped",
)
RECURRING_KEPT = Bound("last times of a recurring job that are listed", 100, "entries", "memory", least=1)
RECURRING_RUNS = Bound("the number of runs of a recurring job", 10**9, "runs", "0 is no limit", least=0)
JOBS = Bound("jobs in one request", 1000, "jobs", "all are made in one step")
DEPTH = Bound("lists and objects inside each other in a request", 32, "levels", "the protocol needs 8")

# Requests and connections of clients
REQUEST = Bound("a request", 16 * MB, "bytes", "twice the largest job file that is known, and more")
VALUES = Bound("values in a request", 400_000, "values", "each takes up to 230 bytes of memory")
UNFINISHED = Bound(
    "large requests of a user that are not answered yet", 32 * MB, "bytes", "two of the largest"
)
UNFINISHED_OF_ALL = Bound("large requests of all users that are not answered yet", 64 * MB, "bytes", "memory")
DECODED = Bound(
    "decoded requests of a user that are not answered yet",
    48 * MB,
    "bytes",
    "memory; one request that is larger is carried out alone",
)
DECODED_OF_ALL = Bound("decoded requests of all users that are not answered yet", 96 * MB, "bytes", "memory")
SMALL_DECODED = Bound(
    "a decoded request that counts as small", 256 * 1024, "bytes", "not counted in the next two"
)
SMALL_REQUEST = Bound("a request that counts as small", 64 * 1024, "bytes", "not counted in the next two")
ANSWERS = Bound("answers that a user has not read", 8 * MB, "bytes", "further requests of the user wait")
PAGE = Bound("jobs on one page of a list", 1000, "jobs", "others are answered between pages")
PAGE_BYTES = Bound(
    "descriptions that are read for one page of a list", 2 * MB, "bytes, encoded", "then the page ends"
)
GROUP_BYTES = Bound(
    "descriptions of ended jobs that are read for a job group",
    32 * MB,
    "bytes, encoded",
    "older ended jobs of the group are left out",
)
EVENT_BYTES = Bound(
    "events that are read for the history of a job",
    32 * MB,
    "bytes, encoded",
    "older events are left out; an event may have a description",
)
TASK_PAGE = Bound("tasks, or instances of one, on a page of a list", 2000, "tasks", "as jobs on a page")
PAST_PAGE = Bound(
    "ended jobs, or changes of parameters, that are read for an answer", 5000, "entries", "as jobs on a page"
)
OWNER_PAGE = Bound(
    "users, projects and groups on a page of the list of limits", 1000, "owners", "as jobs on a page"
)
EVENT_PAGE = Bound("events in an answer", 1000, "events", "as jobs on a page")
HISTORY_PAGE = Bound("entries of the history of a job or node", 10_000, "entries", "as jobs on a page")
AUDIT_PAGE = Bound("lines of the audit log in an answer", 10_000, "lines", "older ones are left out")
TASK_COMMAND = Bound("a command line in a list of tasks", 4096, "characters", "cut; a task shows all of it")
CONNECTIONS = Bound("connections of a user", 256, "connections", "one of each process is enough")
CONNECTIONS_OF_ADMINISTRATOR = Bound(
    "connections of an administrator", 1024, "connections", "hn run has one for each of 512 nodes"
)
CONNECTIONS_OF_ALL = Bound(
    "connections of all users but administrators", 2048, "connections", "20 KB of memory each"
)
REQUEST_TIME = Bound(
    "the time from the first byte of a request to its last", 60, "seconds", "16 MB at 2 Mbit/s"
)
UNREAD_TIME = Bound("the time that an answer stays unread", 300, "seconds", "a pager may be left open")

# The gateway
WEB_BODY = Bound("the body of a request", 16 * MB, "bytes", "as a request of the local protocol")
WEB_BODIES = Bound("bodies that are being received or passed on", 24 * MB, "bytes", "memory; more get 503")
WEB_BODY_TIME = Bound(
    "the time from the header of a request to the end of its body", 60, "seconds", "slow clients"
)
WEB_HEAD = Bound("the first line and the headers of a request", 32 * 1024, "bytes", "memory")
WEB_HEAD_TIME = Bound("the time for the headers of a request", 15, "seconds", "slow clients")
WEB_QUERY = Bound("path and query of a request", 8192, "characters", "other servers allow no more")
WEB_CONNECTIONS = Bound("connections of all clients", 1024, "connections", "memory; more get 503")
WEB_CONNECTIONS_OF_ADDRESS = Bound("connections of one address, but loopback", 256, "connections", "fairness")
WEB_SESSIONS = Bound("sessions of all users", 10_000, "sessions", "then the oldest ends")
WEB_SESSIONS_OF_USER = Bound("sessions of a user", 50, "sessions", "then the oldest ends")
EVENT_STREAMS = Bound("event streams of all users", 512, "streams", "memory; more get 503")
EVENT_STREAMS_OF_USER = Bound("event streams of a user", 256, "streams", "fairness")
WEB_UPDATES = Bound("answers of several lines, of all users", 512, "answers", "a connection to the head each")
WEB_UPDATES_OF_USER = Bound("answers of several lines, of a user", 64, "answers", "fairness")
WEB_CONVERSATIONS = Bound(
    "shells and commands on nodes, of all users", 128, "conversations", "memory; more get 503"
)
WEB_CONVERSATIONS_OF_USER = Bound("shells and commands on nodes, of a user", 16, "conversations", "fairness")
WEB_RUN_NODES = Bound("nodes on which a command runs at a time", 32, "nodes", "a connection to the head each")
WEB_MESSAGE = Bound("a message of a shell", MB, "bytes", "as a frame of the local protocol")
STREAM_QUEUE = Bound("events that a stream has not read", 20_000, "events", "memory; then it ends")

# SSSRMAP
RMAP_MESSAGE = Bound("an SSSRMAP message", 4 * MB, "bytes", "larger job files have other doors")
RMAP_PARTS = Bound("elements of an SSSRMAP message", 50_000, "elements", "memory")
RMAP_ANSWER = Bound("an SSSRMAP answer that hn sss reads", 32 * MB, "bytes", "as other answers")
RMAP_ANSWER_PARTS = Bound("elements of an SSSRMAP answer that hn sss reads", 300_000, "elements", "memory")
RMAP_HEAD = Bound("the header of an SSSRMAP message", 8192, "bytes", "peers send 100")
RMAP_TIME = Bound("the time for an SSSRMAP message", 20, "seconds", "what deployed servers wait")
RMAP_CONNECTIONS = Bound("SSSRMAP connections of all peers", 1024, "connections", "memory; more get 234")
RMAP_CONNECTIONS_OF_ADDRESS = Bound(
    "SSSRMAP connections of one address, but loopback", 64, "connections", "fairness"
)
RMAP_BODIES = Bound("SSSRMAP messages that are being received", 16 * MB, "bytes", "memory; more get 234")
RMAP_CONDITIONS = Bound(
    "Get, Set, Where and Option of a request", 200, "entries", "each is tried on every object"
)
RMAP_ROWS = Bound("objects that an SSSRMAP query looks at", 10_000, "objects", "then it is answered with 146")
RMAP_JOINED = Bound("rows that an SSSRMAP query of several objects tries", 100_000, "rows", "memory")
RMAP_DETAILS = Bound(
    "jobs whose whole description a query reads", 500, "jobs", "each is a request to the head"
)

# Strangers at the port for other machines
STRANGERS = Bound(
    "unauthenticated connections that are served at once", 128, "connections", "60 KB of memory each for TLS"
)
STRANGERS_OF_ADDRESS = Bound(
    "unauthenticated connections of one address that are served at once", 32, "connections", "fairness"
)
WAITING = Bound("connections that wait to be served", 2048, "connections", "a descriptor each, no memory")
WAITING_OF_ADDRESS = Bound("connections of one address that wait", 1024, "connections", "fairness")
HANDSHAKE_TIME = Bound("the time for a TLS handshake", 10, "seconds", "two round trips")
GREETING_TIME = Bound(
    "the time that a connection has to authenticate itself", 15, "seconds", "one round trip"
)
IDLE_TIME = Bound(
    "the time after which an unauthenticated connection is closed if others wait",
    1,
    "seconds",
    "an ordinary client needs 50 ms",
)
GREETING = Bound("a greeting of a node that is not approved", 256 * 1024, "bytes", "it has no tasks")
CLIENT_GREETING = Bound("a greeting of a client", 4096, "bytes", "it is a token")
STANDBY_MESSAGE = Bound(
    "a message of the head to a standby head", 64 * 1024 * 1024, "bytes", "an event has a whole description"
)
STANDBY_ANSWER = Bound("an answer of a standby head", 16_384, "bytes", "it is numbers and three sentences")
STANDBY_CHANGES = Bound(
    "changes beside the journal that a standby head has not got", 4 * 1024 * 1024, "bytes",
    "with more, all rows are sent again",
)  # fmt: skip
STRANGER_LINES = Bound(
    "log lines of one kind about unauthenticated connections", 20, "lines a minute", "the others are counted"
)

# Nodes
PROCESSORS = Bound("processors of a node", 16_384, "", "Linux is built for 8,192 at most", least=1)
SOCKETS = Bound("sockets of a node", 16_384, "", "not above its processors", least=1)
CORES = Bound("cores of a socket", 16_384, "", "not above the processors of the node", least=0)
THREADS = Bound("threads of a core", 1_024, "", "no processor has more than 8", least=0)
SWITCHED_NODES = Bound(
    "nodes and switches in the parameter Topology", 65_536, "", "the text has as many characters"
)
MEMORY = Bound("memory, swap and disk of a node", 2**40, "MB", "no machine has as much", least=0)
GPUS = Bound("GPUs of a node", 1_024, "", "more than any machine has", least=0)
SPEED = Bound("speed of a processor", 1_000_000, "MHz", "1 THz", least=0)
NODE_LIST = Bound("groups or features of a node", 1000, "entries", "they are in lists")
REPORT = Bound("a message of a node", 8 * MB, "bytes", "5,000 results with their sentences")
ATTEMPTS = Bound("attempts in one message of a node", 100_000, "entries", "6 for each of 16,384 processors")
RESULTS = Bound("results in one message of a node", 10_000, "entries", "agents send 5,000")
LAUNCHES = Bound(
    "environment of a command that a task launches on another node", 10_000, "variables", "as tasks"
)
SIGNAL = Bound("the signal that ended a task", 64, "", "Linux has 64", least=1)
MEMORY_USED = Bound("memory that a task has used, on all its nodes", 2**42, "kB", "4,096 TB", least=0)
BYTES_MOVED = Bound(
    "bytes that a task has read or written", 2**63 - 1, "bytes", "the kernel's counter", least=0
)
TIME_USED = Bound("processor time of a task", 10**12, "seconds", "16,384 processors for two years", least=0)
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""Wrong JSON or MessagePack, or of another shape; no UTF-8; too deep; a number that is too large."""

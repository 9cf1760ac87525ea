"""The head's process: reads its options, opens the journal, serves clients and nodes, ends cleanly."""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headnode.adapters.clock import WallClock
from headnode.adapters.files.local_daemons import (
    GATEWAY_USER,
    NO_LONGER,
    REPLACED,
    STANDBY,
    address_to_listen_at,
    announced,
    cluster_name,
    host_name,
    nodes_here,
    remembered_word,
)
from headnode.adapters.files.owners import FILE_MODE_MASK, refuse_unsafe_state, warn_of_unsafe_code
from headnode.adapters.identity.users import account
from headnode.adapters.journal.sqlite import open_journal
from headnode.adapters.nodes.entrance import Entrance, LogRateLimit
from headnode.adapters.nodes.links import NodeLinks
from headnode.adapters.policy_plug_ins import installed_policies
from headnode.adapters.wire import messages as m
from headnode.adapters.wire.frames import listen, quiet_at_the_end, read_by_pieces
from headnode.apps.server.agent_supervisor import (
    NODE_SOCKET,
    Absences,
    AgentSupervisor,
    given_up_in,
    remove_former_nodes,
    watch_for_lost_nodes,
)
from headnode.apps.server.api.streams import JobWatchers
from headnode.apps.server.command_batcher import CommandBatcher, EffectsInOrder
from headnode.apps.server.doors.unix import UnixDoor
from headnode.apps.server.filtering.activation_offers import ActivationFilters
from headnode.apps.server.filtering.filter_documents import FilterCaller
from headnode.apps.server.filtering.submission_chain import SubmissionFilters
from headnode.apps.server.job_notices import JobNotices
from headnode.apps.server.optional_services import LastingWork, OptionalServices, Work
from headnode.apps.server.server_context import ContextParts, ServerContext
from headnode.core.model.errors import HeadnodeError, Unavailable
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Seconds
from headnode.core.state import nodes as c
from headnode.engine.engine import Engine
from headnode.engine.policy_registry import PolicyRegistry
from headnode.engine.ports import StandbyStore

if TYPE_CHECKING:
    from headnode.apps.server.doors.gateway import GatewayDoor
    from headnode.apps.server.doors.network import NetworkListener


class HeadOptions(msgspec.Struct, frozen=True):
    """How to start a head.  `nodes` 0: no nodes on this machine; None: as before."""

    state: Path
    name: str
    nodes: int | None = None
    processors: int | None = None
    listen: str = ""  # HOST or HOST:PORT for nodes of other machines; empty: there are none
    gateway_user: str = ""  # the account that speaks for users of the web; empty: none does
    verbose: bool = False


def read_options(arguments: list[str]) -> HeadOptions:
    """Return the options of the command line; argparse ends the process with 2 when they are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m headnode.apps.server", description="Run a head in the foreground."
    )
    parser.add_argument("--state", type=Path, required=True, help="state directory")
    parser.add_argument("--name", default="", help="name of the cluster (default: as before)")
    parser.add_argument("--nodes", type=int, help="nodes to run on this machine (default: as before, or 1)")
    parser.add_argument("--processors", type=int, help="processors of each (default: as before, or all)")
    parser.add_argument(
        "--listen", default="", metavar="HOST[:PORT]", help="address at which other machines can join"
    )
    parser.add_argument(
        "--gateway-user", default="", metavar="NAME", help="account whose gateway may speak for other users"
    )
    parser.add_argument("--verbose", action="store_true", help="log more")
    read = parser.parse_args(arguments)
    if (read.nodes is not None and read.nodes < 0) or (read.processors is not None and read.processors < 1):
        parser.error("--nodes must be 0 or more, --processors 1 or more")
    return HeadOptions(
        state=Path(os.path.abspath(read.state)),  # noqa: PTH100  (resolve() would follow a link that may move)
        name=read.name,
        nodes=read.nodes,
        processors=read.processors,
        listen=read.listen,
        gateway_user=read.gateway_user,
        verbose=read.verbose,
    )


def node_names(options: HeadOptions) -> list[str]:
    """Return the names of this machine's nodes."""
    host = host_name()
    if options.nodes is None or options.nodes == 1:
        return [host]
    return [f"{host}-{number}" for number in range(1, options.nodes + 1)]


log = logging.getLogger("headnode.server")

BETWEEN_SNAPSHOT_LOOKS = 5.0  # seconds
REPLACED_STATUS = 1
LOOK_OVER = 2.0  # seconds in which damage is looked for at the start


def main(arguments: list[str]) -> int:
    """Run a head until it is told to end; return its exit status."""
    options = read_options(arguments)
    logging.raiseExceptions = False  # a log that cannot be written must not be filled with that
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    os.umask(FILE_MODE_MASK)
    warn_of_unsafe_code(log)
    for name in ("headnode.strangers", "asyncio"):  # others can make lines there
        logging.getLogger(name).addFilter(LogRateLimit())
    try:
        refuse_unsafe_state(options.state)
        options.state.mkdir(parents=True, exist_ok=True)
        options.state.chmod(0o755 if os.geteuid() == 0 else 0o700)
        refuse_unsafe_state(options.state)
        _refuse_other_places(options.state)
        journal = open_journal(options.state)
        options = _remembered(options)  # not before: a second head must not change what the first has said
    except HeadnodeError as error:
        log.critical("%s", error)
        return error.exit_status
    except OSError as error:
        log.critical("the state directory %s cannot be used: %s", options.state, error)
        return 1
    try:
        journal.look_over(LOOK_OVER)
        return asyncio.run(Head(options, journal).run())
    except HeadnodeError as error:
        log.critical("%s", error)
        return error.exit_status
    finally:
        journal.close()


def _refuse_other_places(state: Path) -> None:
    """Refuse the directory of a standby, and that of a head from which its standby has taken over.

    Raises:  WrongState ``standby-here``, ``head-replaced``; Unavailable ``standby-file``.
    """
    if (state / STANDBY).exists() or (state / REPLACED).exists():
        from headnode.adapters.files.standby_place import refuse_head

        refuse_head(state)


def _remembered(options: HeadOptions) -> HeadOptions:
    """Return the options with those of earlier starts, and store those of this start.

    Raises:  OSError; BadRequest ``nodes-here``; NotFound ``no-such-user``.
    """
    nodes, processors = nodes_here(options.state, options.nodes, options.processors)
    name = cluster_name(options.state, options.name)
    if options.gateway_user and options.gateway_user != NO_LONGER:
        account(options.gateway_user)  # a wrong name is not remembered
    user = remembered_word(options.state / GATEWAY_USER, options.gateway_user)
    return msgspec.structs.replace(options, name=name, nodes=nodes, processors=processors, gateway_user=user)


class Head:
    """Everything of one head, put together."""

    def __init__(self, options: HeadOptions, journal: StandbyStore) -> None:
        self._options, self._journal = options, journal
        self._ended = asyncio.Event()
        self._status = 0
        self.watchers = JobWatchers()
        self._effects = EffectsInOrder(self.watchers)
        clock = WallClock()
        gc.disable()  # nothing of what the journal brings back is garbage
        self.engine = Engine(journal, clock, PolicyRegistry(*installed_policies(), clock), self._effects)
        gc.freeze()  # it lives long: collecting it again and again is waste
        gc.enable()
        self.batcher = CommandBatcher(self.engine, self._die)
        self.links = NodeLinks(self.batcher.tell, self._welcome, lambda: self.engine.cluster)
        self._effects.effects.append(self.links)
        self._absences = Absences()
        self.context = ServerContext(
            self.engine, journal, self.batcher, options.state, options.name, self._parts_of
        )
        context = self.context
        self._effects.effects += [context.feed, context.job_counters, context.predicted_starts, self._notices]
        self._effects.effects += [self._optional, self._submissions]
        self.engine.offers.filters = self._activations
        for service in self._optional.all:
            service.look()
        self._supervisor = AgentSupervisor(options.state, node_names(options), options.processors)

    def _parts_of(self, context: ServerContext) -> ContextParts:
        """Make the parts of the head that need its context."""
        options = self._options
        self._notices = JobNotices(
            self.engine, context.lookups, options.state, options.name, context.row_changes
        )
        self._filter_caller = FilterCaller(options.state, options.name)
        self._optional = OptionalServices(
            context, self._filter_caller, self._journal, self._journal, self.links.welcome_again
        )
        self._submissions = SubmissionFilters(context, self._filter_caller)
        self._activations = ActivationFilters(context, self._filter_caller)
        address = address_to_listen_at(options.state, options.listen)
        return ContextParts(
            self.watchers,
            self.links.sessions,
            self.links.links,
            self.links.contacts,
            given_up_in=partial(given_up_in, self.engine, self.links, self._absences),
            shut_down=self._shut_down,
            store=self._journal,
            submission_chain=self._submissions,
            asker=self._filter_caller,
            notices=self._notices,
            hand_off=lambda: self._optional.hand_off.service,
            elastic=lambda: self._optional.elastic.service,
            standbys=lambda: self._optional.standbys.service,
            network=self._network(context, address) if address else None,
        )

    def _network(self, context: ServerContext, address: str) -> "NetworkListener":
        """Return what listens for other machines; only then are its doors imported."""
        from headnode.apps.server.doors.network import NetworkListener
        from headnode.apps.server.doors.tasks import TaskDoor
        from headnode.apps.server.doors.tls import TlsDoor

        clients, tasks = TlsDoor(context), TaskDoor(context)
        return NetworkListener(
            self._options.state, address, self.batcher, self.links, clients.serve, tasks.serve,
            self._options.name, lambda: self.engine.cluster.term,
        )  # fmt: skip

    def _welcome(self) -> m.Welcome:
        settings, standbys = self.engine.settings, self.context.standbys
        return m.Welcome(
            self._options.name,
            Seconds(settings.number("HeartbeatInterval")),
            Seconds(settings.number("TaskCancelGracePeriod")),
            str(self._options.state),
            host=socket.gethostname(),
            heads=() if standbys is None else standbys.heads_for_nodes(),
            term=self.engine.cluster.term,
            mark=0 if standbys is None else standbys.mark,
        )

    def _die(self) -> None:
        self._status = 70
        self._ended.set()

    def _shut_down(self) -> None:
        """End with the agents of this machine; others stay, as a new head cannot start them."""
        if self.context.open_on_nodes:
            from headnode.apps.server.api.node_commands import close_all

            close_all(self.context)
        nodes = self.engine.cluster.nodes
        for name, link in self.links.links.items():
            if name not in nodes or not nodes[name].key:
                link.send(m.Goodbye(reason="the head was stopped"))
        self._supervisor.dismiss(self.links.links)
        self._ended.set()

    async def run(self) -> int:
        """Serve until told to end."""
        if await self._optional.is_replaced():
            return REPLACED_STATUS
        await self._mark_nodes_unreachable()
        async with self._serving():
            with announced(os.environ, self._options.name, self._options.state):
                await self._until_ended()
        if self._status == 0:
            await self.batcher.settled()
            self.engine.snapshot_if_due(at_least=1)
        return self._status

    async def _until_ended(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._ended.set)  # agents wait for the next head
        loop.add_signal_handler(signal.SIGINT, self._shut_down)  # of a person: as hn down
        log.info("head of cluster %s is ready in %s", self._options.name, self._options.state)
        await self._ended.wait()

    async def _mark_nodes_unreachable(self) -> None:
        """No node has dialled yet: say so, and each that does will be reachable again."""
        nodes = self.engine.cluster.nodes.items()
        names = [name for name, node in nodes if node.state in (NodeState.READY, NodeState.PAUSED)]
        await asyncio.gather(*(self.batcher.ask(c.NodeVanished(node=name)) for name in names))

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        read_by_pieces()
        state = self._options.state
        doors: list[asyncio.Server | Entrance] = []
        if self.context.network is not None:  # first: who asks here whether the head is ready means that, too
            doors.append(await self.context.network.open())
            log.info("nodes may join at %s port %d", self.context.network.host, self.context.network.port)
        gateway = self._gateway.serve if self._options.gateway_user else self._serve_gateway
        of_clients = (("head.sock", UnixDoor(self.context).serve), ("gateway.sock", gateway))
        for name, mode, serve in (
            *((name, 0o666, serve) for name, serve in of_clients),
            (NODE_SOCKET, 0o600, self.links.serve),
        ):
            bound = listen(state / name, mode)
            doors.append(await asyncio.start_unix_server(quiet_at_the_end(serve), sock=bound))
        self._submissions.begin()
        self.batcher.set_alarm()
        beside = LastingWork(self.context.failed_parts)
        for part, work in self._work_beside().items():
            beside.begin(part, work)
        try:
            yield
        finally:
            beside.cancel()
            await self._submissions.close()
            await self._activations.close()
            await self._filter_caller.close()
            for door in doors:
                door.close()
            for name, _ in of_clients:
                (state / name).unlink(missing_ok=True)
            await beside.ended()
            self._notices.close()

    @cached_property
    def _gateway(self) -> "GatewayDoor":
        """The door of the gateway; without an account of the gateway it is imported when one connects."""
        from headnode.apps.server.doors.gateway import GatewayDoor

        return GatewayDoor(self.context, self._options.gateway_user)

    async def _serve_gateway(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._gateway.serve(reader, writer)

    def _work_beside(self) -> dict[str, Work]:
        """Return what goes on as long as requests are served.  Each may be begun again when it has failed."""
        engine, batcher, links = self.engine, self.batcher, self.links
        local = self._options.state, node_names(self._options)
        return {
            "agents of this machine": partial(self._supervisor.keep, links.links),
            "snapshots": self._snapshots,
            "lost nodes": partial(watch_for_lost_nodes, engine, batcher, links, self._absences),
            "former nodes": partial(remove_former_nodes, engine, batcher, *local),
            "predicted starts": self.context.predicted_starts.keep,
            "notices": self._notices.keep,
            **{name: service.keep for name, service in self._optional.named.items()},
        }

    async def _snapshots(self) -> None:
        while True:
            await asyncio.sleep(BETWEEN_SNAPSHOT_LOOKS)
            try:
                await self.batcher.settled()
                self.engine.snapshot_if_due()
            except Unavailable as error:
                log.error("no snapshot was kept: %s", error)

"""From commit to client, and the tracker's part of it, beside the hops that the way consists of."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from shared.broker.connection import connect
from shared.broker.cursor import last_ids
from shared.contracts import streams
from shared.contracts.wire import SUBSCRIBE
from tests.bench import zero
from tests.bench.bare_streams import follow
from tests.bench.figures import Figure, Target, percentile
from tests.bench.ground import Ground
from tests.bench.native import Unavailable, leave_out
from tests.bench.pacing import paced
from tests.bench.peers.streams import PACED
from tests.bench.process import Peer
from tests.bench.writing import MARK, Writer, seed
from tests.support.waiting import eventually

RATE = 200.0
SESSIONS = 50
SCOPES_EACH = 2
LIGHTER = 10
"""Zero is measured under this fraction of the load, too: of commits, sessions and followers."""

PARTITIONS = 8
FRAME_BYTES = 1500
ROUNDS = 3

_AT = re.compile(r"at:(\d+)")
_MARKED = re.compile(MARK + r"(\d+)")
_REVISIONS = "SELECT session_id, revision FROM conversation_session_revisions WHERE session_id = ANY($1)"
_REVISION = re.compile(r'"revision":"(\d+)"')


@dataclass
class Delays:
    """Milliseconds of one hop."""

    taken: list[float] = field(default_factory=list)

    def add(self, since: int, until: int) -> None:
        """One delay between two moments in nanoseconds."""
        self.taken.append((until - since) / 1e6)

    def at(self, share: float) -> float:
        """A percentile."""
        return percentile(self.taken, share)

    async def until(self, count: int) -> None:
        """Waits until so many are there: a round has ended when all of it has arrived."""
        await eventually(lambda: asyncio.sleep(0, len(self.taken)), lambda taken: taken >= count)


@dataclass
class Followers:
    """Connections with one scope each. `committed`: commits are to be noted here. `heard`: by connection, the revision
    that it was told last.
    """

    delays: Delays
    sessions: int
    committed: dict[int, int] = field(default_factory=dict)
    heard: dict[int, int] = field(default_factory=dict)

    def note(self, place: int, data: str, now: int) -> None:
        """Takes what one connection was told."""
        if (found := _MARKED.search(data)) is not None and (number := int(found[1])) in self.committed:
            self.delays.add(self.committed[number], now)
        if (told := _REVISION.search(data)) is not None:
            self.heard[place] = int(told[1])

    async def show(self, ground: Ground, messages: Sequence[str], rate: float, seconds: float) -> None:
        """Commits so many a second for so long; every connection has been told all of it afterwards."""
        writer = Writer(ground.pool, messages)
        writer.committed = self.committed
        await paced(rate, seconds, writer.commit)
        sessions = [_followed(place, self.sessions) for place in range(self.sessions * SCOPES_EACH)]
        revisions = dict(await ground.pool.fetch(_REVISIONS, sessions))

        async def all_told() -> bool:
            return all(self.heard.get(place, 0) >= revisions[session] for place, session in enumerate(sessions))

        await eventually(all_told)


async def measure(ground: Ground, seconds: float, *, all_peers: bool) -> Sequence[Figure]:
    """Rounds of each bare hop and of the product, in turn; then of the product and Rocicorp Zero."""
    for pool in (ground.pool, ground.twin_pool):
        await seed(pool, "live", SESSIONS, 1)
    messages = [f"live-{number}-1" for number in range(1, SESSIONS + 1)]
    await ground.serve()
    decode, redis, socket, receipt, frame = (Delays() for _ in range(5))
    port = ground.ports.private()
    async with (
        Peer("decoder", ground.twin) as decoder,
        Peer("streams", ground.redis_url.get_secret_value(), "1") as writer,
        Peer("sockets", str(port), "1") as server,
    ):
        for peer in (decoder, writer, server):
            await peer.ask(rate=1, seconds=0, size=1, streams=1, each=1)
        async with (
            _bare_clients(f"http://127.0.0.1:{port}/ws", socket) as _,
            _followers(ground, frame, SESSIONS) as followers,
        ):
            for _ in range(ROUNDS):
                await _decoding(ground, decoder, messages, decode, seconds)
                await _streaming(ground, writer, redis, seconds)
                before = len(socket.taken)
                sent = await server.ask(rate=RATE, seconds=seconds, size=FRAME_BYTES, each=SCOPES_EACH)
                await socket.until(before + sent["written"])
                await followers.show(ground, messages, RATE, 2 * seconds)
        for _ in range(ROUNDS):
            await _tracking(ground, messages, receipt, seconds)
    hops, first_hops = (decode, redis, socket), (decode, redis)
    against = "commit→decode, XADD→XREAD, write→read"
    return (
        *(
            Figure(
                f"commit → frame at the client, {name}",
                frame.at(share),
                "ms",
                sum(hop.at(share) for hop in hops),
                against,
                Target("at most", 1.5),
            )
            for name, share in (("p50", 0.5), ("p99", 0.99))
        ),
        Figure(
            "commit → receipt read from Redis, p50",
            receipt.at(0.5),
            "ms",
            sum(hop.at(0.5) for hop in first_hops),
            "commit→decode, XADD→XREAD",
        ),
        *(
            Figure(f"- bare {name}, p50", hop.at(0.5), "ms")
            for name, hop in (("commit → decode", decode), ("XADD → XREAD", redis), ("socket write → read", socket))
        ),
        *(await _beside_zero(ground, messages, seconds) if all_peers else ()),
    )


async def _beside_zero(ground: Ground, messages: Sequence[str], seconds: float) -> Sequence[Figure]:
    """The product and Rocicorp Zero in turn, under the full load and a lighter one; nothing where Zero cannot run."""
    figures: list[Figure] = []
    try:
        async with zero.cache(ground, SESSIONS) as cache:
            for part in (1, LIGHTER):
                figures += await _in_turn(ground, cache, messages[: SESSIONS // part], RATE / part, 2 * seconds)
    except Unavailable as reason:
        leave_out(reason)
    return figures


async def _in_turn(
    ground: Ground, cache: zero.Cache, messages: Sequence[str], rate: float, seconds: float
) -> Sequence[Figure]:
    product, peer, own = Delays(), Delays(), 0
    sessions = len(messages)
    async with (
        _followers(ground, product, sessions) as followers,
        cache.followed(sessions, SCOPES_EACH) as following,
    ):
        await following.show(rate, seconds)
        for _ in range(ROUNDS):
            await followers.show(ground, messages, rate, seconds)
            shown = await following.show(rate, seconds)
            own += shown.own
            for since, until in shown.moments:
                peer.add(since, until)
    load = f"{rate:g} commits/s to {sessions} sessions"
    return (
        *(
            Figure(f"commit → frame, {name}, {load}", product.at(share), "ms", peer.at(share), "Rocicorp Zero")
            for name, share in (("p50", 0.5), ("p99", 0.99))
        ),
        Figure(f"- changes that Zero showed by themselves, {load}", 100 * own / len(peer.taken), "%"),
    )


async def _decoding(ground: Ground, decoder: Peer, messages: Sequence[str], delays: Delays, seconds: float) -> None:
    writer = Writer(ground.twin_pool, messages)
    await paced(RATE, seconds, writer.commit)
    decoded: dict[str, int] = {}

    async def all_decoded() -> bool:
        decoded.update((await decoder.ask())["decoded"])
        return all(str(number) in decoded for number in writer.committed)

    await eventually(all_decoded)
    for number, at in writer.committed.items():
        delays.add(at, decoded[str(number)])


async def _streaming(ground: Ground, writer: Peer, delays: Delays, seconds: float) -> None:
    def note(fields: Mapping[bytes, bytes], now: int) -> None:
        delays.add(int(fields[b"at"]), now)

    async with _reading(ground, [PACED.format(number) for number in range(PARTITIONS)], note):
        before = len(delays.taken)
        added = await writer.ask(rate=RATE, seconds=seconds, size=FRAME_BYTES, streams=PARTITIONS)
        await delays.until(before + added["written"])


async def _tracking(ground: Ground, messages: Sequence[str], delays: Delays, seconds: float) -> None:
    writer = Writer(ground.pool, messages)
    seen: dict[int, int] = {}

    def note(fields: Mapping[bytes, bytes], now: int) -> None:
        if (found := _MARKED.search(fields[b"r"].decode())) is not None:
            seen[int(found[1])] = now

    async with _reading(ground, [streams.receipts(number) for number in range(PARTITIONS)], note):
        await paced(RATE, seconds, writer.commit)
        await eventually(lambda: asyncio.sleep(0, writer.committed.keys() <= seen.keys()))
    for number, at in writer.committed.items():
        delays.add(at, seen[number])


@asynccontextmanager
async def _reading(
    ground: Ground, names: Sequence[str], note: Callable[[Mapping[bytes, bytes], int], None]
) -> AsyncIterator[None]:
    """Reads streams from now on."""
    client = connect(ground.redis_url)
    reading = asyncio.create_task(follow(client, await last_ids(client, names), note))
    try:
        yield
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        await client.aclose()


@asynccontextmanager
async def _bare_clients(url: str, delays: Delays) -> AsyncIterator[None]:
    """As many connections to a bare server as there are scopes."""

    def note(_: int, data: str, now: int) -> None:
        if (found := _AT.search(data)) is not None:
            delays.add(int(found[1]), now)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        sockets = [await http.ws_connect(url, max_msg_size=0) for _ in range(SESSIONS * SCOPES_EACH)]
        async with _listening(sockets, note):
            yield


@asynccontextmanager
async def _followers(ground: Ground, delays: Delays, sessions: int) -> AsyncIterator[Followers]:
    """A connection with one scope each, for the first sessions."""
    sockets = []
    for number in range(sessions * SCOPES_EACH):
        socket = await ground.http.ws_connect(ground.url + "/ws", max_msg_size=0)
        sockets.append(socket)
        payload = {
            "session_id": _followed(number, sessions),
            "scope_id": f"bench-{number}",
            "consumer_kind": "core",
        }
        await socket.send_json({"id": "1", "type": "request", "action": SUBSCRIBE, "payload": payload})
        reply = await socket.receive_json()
        assert reply["payload"]["success"], reply
    followers = Followers(delays, sessions)
    async with _listening(sockets, followers.note):
        yield followers


def _followed(place: int, sessions: int) -> str:
    """The session that the connection at this place follows."""
    return f"live-{place % sessions + 1}"


@asynccontextmanager
async def _listening(
    sockets: Sequence[aiohttp.ClientWebSocketResponse], note: Callable[[int, str, int], None]
) -> AsyncIterator[None]:
    async def listen(place: int, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            now = time.monotonic_ns()
            note(place, message.data, now)

    tasks = [asyncio.create_task(listen(*each)) for each in enumerate(sockets)]
    try:
        yield
    finally:
        for socket in sockets:
            await socket.close()
        await asyncio.wait(tasks)

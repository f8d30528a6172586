"""One change to very many clients: frames for a second of the server's processor."""

from collections.abc import Sequence

from tests.bench.figures import Figure
from tests.bench.ground import Ground, settle
from tests.bench.pacing import paced
from tests.bench.process import Peer, Program
from tests.bench.writing import CONTENT_BYTES, Writer, seed

SCOPES = 1000
RATE = 20.0
"""Changes a second: few enough that none is joined with another."""

FRAME_BYTES = CONTENT_BYTES + 500
ROUNDS = 2


async def measure(ground: Ground, seconds: float) -> Sequence[Figure]:
    """The gateway, with clients that follow one session, and a bare server that writes one ready frame to each."""
    await seed(ground.pool, "crowd", 1, 1)
    await ground.serve()
    writer = Writer(ground.pool, ["crowd-1-1"])
    gateway = ground.services["gateway"]
    port = ground.ports.private()
    websocket = ground.url.replace("http", "ws") + "/ws"
    sent: dict[str, list[float]] = {"gateway": [0, 0], "bare": [0, 0]}

    async with (
        Peer("sockets", str(port), "1") as server,
        Peer("audience", websocket, str(SCOPES), "crowd-1") as followers,
    ):
        await server.ask(rate=1, seconds=0, size=1, each=1)
        async with Peer("audience", f"ws://127.0.0.1:{port}/ws", str(SCOPES)) as listeners:
            for peer in (followers, listeners):
                await peer.ask()
            for _ in range(ROUNDS):
                frames, spent = await _spent(followers, gateway)
                await paced(RATE, 2 * seconds, writer.commit)
                await settle()
                await _add(sent["gateway"], followers, gateway, frames, spent)
                frames, spent = await _spent(listeners, server)
                await server.ask(rate=RATE, seconds=2 * seconds, size=FRAME_BYTES, each=SCOPES)
                await settle()
                await _add(sent["bare"], listeners, server, frames, spent)
    rates = {name: frames / spent for name, (frames, spent) in sent.items()}
    return (
        Figure(
            f"frames per second of processor, {SCOPES:,} scopes of one session",
            rates["gateway"],
            "/s",
            rates["bare"],
            "bare aiohttp, one ready frame per client",
        ),
    )


async def _spent(audience: Peer, server: Program) -> tuple[float, float]:
    return (await audience.ask())["frames"], server.cpu_seconds()


async def _add(into: list[float], audience: Peer, server: Program, frames: float, spent: float) -> None:
    now_frames, now_spent = await _spent(audience, server)
    into[0] += now_frames - frames
    into[1] += now_spent - spent

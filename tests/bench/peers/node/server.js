// A bare WebSocket server of the npm package `ws`: one ready-made frame per client on every tick. Listens on the port
// that is its argument; spoken to as every peer is (`answering.py`).
"use strict";

const readline = require("node:readline");
const { WebSocketServer } = require("ws");

const clients = new Set();
const server = new WebSocketServer({ host: "127.0.0.1", port: Number(process.argv[2]), perMessageDeflate: false });
server.on("connection", (client) => {
  clients.add(client);
  client.on("message", () => {});
  client.on("error", () => {});
  client.on("close", () => clients.delete(client));
});

function write(size) {
  const head = `{"at:${process.hrtime.bigint()}":"`;
  const frame = Buffer.from(`${head}${"x".repeat(Math.max(0, size - head.length - 2))}"}`);
  for (const client of clients) client.send(frame, { binary: false });
}

// A late tick is made up for at once: the rate holds over the whole time.
function tick({ rate, seconds, size }) {
  const ticks = Math.floor(rate * seconds);
  const began = performance.now();
  return new Promise((resolve) => {
    let number = 0;
    const next = () => {
      if (number === ticks) return resolve();
      write(size);
      number += 1;
      const wait = began + (1000 * number) / rate - performance.now();
      if (wait > 0) setTimeout(next, wait);
      else setImmediate(next);
    };
    next();
  });
}

async function answerAll() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await tick(JSON.parse(line));
    console.log(JSON.stringify({ clients: clients.size }));
  }
  process.exit(0);
}

answerAll();

// Followers of Rocicorp Zero: each a client of its own, with a connection and a store of its own, that keeps the
// messages of one session in view. Arguments: the address of zero-cache, the port on which it asks what the query
// means, how many clients, over how many sessions. Spoken to as every peer is (`answering.py`): every question is
// answered with what each client saw since the last one, once all of them are in sync.

import { setMaxListeners } from "node:events";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { createBuilder, createSchema, defineQueries, defineQuery, mustGetQuery, string, table, Zero } from "@rocicorp/zero";
import { handleQueryRequest } from "@rocicorp/zero/server";
import { WebSocket } from "ws";

// Node has a WebSocket of its own from version 22 on; the same one is used everywhere. As in a browser, an error that
// nobody listens to ends nothing: the client connects again.
globalThis.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    this.on("error", () => {});
  }
};
// So many clients in one process are no leak.
setMaxListeners(0);

const MARKED = /^mark:(\d+) /;

const [server, port, clients, sessions] = process.argv.slice(2);

const messages = table("task_session_messages")
  .columns({ id: string(), task_session_id: string(), content: string() })
  .primaryKey("id");
const schema = createSchema({ tables: [messages] });
const builder = createBuilder(schema);
const queries = defineQueries({
  ofSession: defineQuery(({ args }) => builder.task_session_messages.where("task_session_id", args)),
});

// zero-cache asks for the meaning of each query by name.
createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const meaning = await handleQueryRequest(
    (name, args) => mustGetQuery(queries, name).fn({ args, ctx: undefined }),
    schema,
    JSON.parse(Buffer.concat(chunks).toString()),
  );
  response.setHeader("content-type", "application/json").end(JSON.stringify(meaning));
}).listen(Number(port), "127.0.0.1");

// One follower: [number of the commit, nanoseconds of the monotonic clock, as text] of every change that it saw.
function follower(number) {
  const zero = new Zero({ server, schema, userID: `bench-${number}`, kvStore: "mem", logLevel: "error" });
  let seen = [];
  const view = zero.materialize(queries.ofSession(`zero-${(number % sessions) + 1}`));
  const complete = new Promise((resolve) => {
    view.addListener((rows, state) => {
      const now = String(process.hrtime.bigint());
      for (const row of rows) {
        const found = MARKED.exec(row.content);
        if (found) seen.push([Number(found[1]), now]);
      }
      if (state === "complete") resolve();
    });
  });
  return {
    complete,
    take() {
      const taken = seen;
      seen = [];
      return taken;
    },
  };
}

const followers = Array.from({ length: Number(clients) }, (_, number) => follower(number));
for await (const _ of createInterface({ input: process.stdin })) {
  await Promise.all(followers.map((each) => each.complete));
  console.log(JSON.stringify({ seen: followers.map((each) => each.take()) }));
}
process.exit(0);

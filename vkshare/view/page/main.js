// The page: takes messages in their order, shows pictures, and sends back what the user does.

import { Connection, takeToken } from "/connection.js";
import { Input } from "/input.js";
import { Layout } from "/layout.js";
import { Player } from "/player.js";
import { Status } from "/status.js";

const $ = (id) => document.getElementById(id);
const canvas = $("picture");
const layout = new Layout(canvas, $("stage"));
const status = new Status();
const root = document.documentElement;

const REFUSED = "The server refuses this page: its token is not this server's, or too many pages are open. "
  + "Open the address that the server has printed.";
const NO_TOKEN = "This address has no token. Open the whole address that the server has printed, with all after its #.";

let isConfigured = false;
let hasEnded = false;
let isWaiting = false; // no process publishes the picture's name for now
let clock = NaN; // the server's clock minus this page's, ms
let quickest = Infinity; // of the round trips that have set it

const player = new Player(canvas, layout, {
  send: (message) => connection.send(message),
  restart: () => connection.restart(),
  configured(message) {
    isConfigured = true;
    status.source(message.name, message.width, message.height);
    if (isWaiting) status.state("waiting", "The picture is published again. Its first frame has not come yet.");
    isWaiting = false;
  },
  shown,
  ended(why) {
    hasEnded = true;
    status.state("ended", why ? `The picture has ended: ${why}` : "The picture has ended.", true);
  },
  awaits(text) {
    isWaiting = true;
    status.state("waiting", `${text[0].toUpperCase()}${text.slice(1)}.`);
  },
  withoutVideo(why) {
    $("quality").value = "lossless";
    $("quality").disabled = true;
    $("quality").title = why;
  },
});

const token = takeToken();
const connection = new Connection(token, {
  open() {
    quickest = Infinity;
    hasEnded = false;
    player.begin();
    input.reset();
    if ($("quality").value !== "auto" || !player.canDecode) sendQuality();
    connection.send({ type: "ping", time: performance.now() });
    input.resize();
  },
  message(data) {
    if (typeof data === "string") pong(JSON.parse(data));
    else player.take(data);
  },
  waiting(seconds, isRefused) {
    if (hasEnded) return;
    const when = seconds < 1 ? "now" : `in ${seconds.toFixed(0)} s`;
    if (isRefused) {
      status.state("refused", token ? REFUSED : NO_TOKEN, true);
    } else {
      const text = isConfigured ? "The connection is lost" : "The server does not answer";
      status.state(isConfigured ? "lost" : "connecting", `${text}. Trying again ${when}.`, seconds >= 1);
    }
  },
});

const input = new Input(canvas, $("stage"), layout, {
  send: (event) => connection.send({ type: "event", ...event }),
  leave: () => $("zoom").focus(),
});

/** Sets the server's clock by the quickest round trip, of which half is the way back. */
function pong({ type, time, clock: theirs }) {
  if (type !== "pong") return;
  const now = performance.now();
  if (now - time > quickest) return;
  quickest = now - time;
  clock = theirs - (now + time) / 2;
}

/** Says how the newest picture came. */
function label(isLossless) {
  status.mode(isLossless ? "lossless" : `video ${player.codec}`, isLossless);
  root.dataset.mode = isLossless ? "lossless" : "video";
}

/** A picture is on the canvas: the texts around it follow. */
function shown(message) {
  label(message.type === "tiles");
  status.shown(message.time ? performance.now() + clock - message.time : NaN);
  root.dataset.frames = String(Number(root.dataset.frames || 0) + 1);
  root.dataset.frame = String(message.frame);
  status.state("shown");
  // A canvas that is not shown yet cannot have the focus.
  if (root.dataset.frames === "1" && document.activeElement === document.body) canvas.focus({ preventScroll: true });
}

function sendQuality() {
  connection.send({ type: "mode", mode: player.canDecode ? $("quality").value : "lossless" });
}

$("quality").addEventListener("change", sendQuality);
$("retry").addEventListener("click", () => connection.open());
$("zoom").addEventListener("click", () => {
  layout.isFitted = !layout.isFitted;
  $("zoom").setAttribute("aria-pressed", String(!layout.isFitted));
});
$("full").addEventListener("click", async () => {
  await $("stage").requestFullscreen();
  canvas.focus();
});
addEventListener("hashchange", () => {
  if (location.hash) location.reload(); // another address was opened in this tab: its token counts
});
connection.open();

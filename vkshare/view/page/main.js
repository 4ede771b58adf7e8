// The page: takes messages in their order, shows pictures, and sends back what the user does.

import { Connection, takeToken } from "/connection.js";
import { Input } from "/input.js";
import { Layout } from "/layout.js";
import * as messages from "/messages.js";
import { Status } from "/status.js";
import * as tiles from "/tiles.js";
import { Video, hasVideo } from "/video.js";

const $ = (id) => document.getElementById(id);
const canvas = $("picture");
const context = canvas.getContext("2d", { alpha: false, colorSpace: "srgb" });
const layout = new Layout(canvas, $("stage"));
const status = new Status();
const root = document.documentElement;

const REFUSED = "The server refuses this page: its token is not this server's, or too many pages are open. "
  + "Open the address that the server has printed.";
const MOST_FAILURES = 2;
const PATIENCE = 500; // ms for the pictures of a decoder before tiles are drawn without them

let config = null; // the newest CONFIG
let hasEnded = false;
let session = 0; // of the connection: work for an earlier one is given up
let order = Promise.resolve(); // pictures are shown one after the other, whatever their decoders take
let clock = NaN; // the server's clock minus this page's, ms
let quickest = Infinity; // of the round trips that have set it

let canDecode = hasVideo; // until the decoder has failed MOST_FAILURES times
let failures = 0;
let decoding = Promise.resolve(); // the newest access unit's picture
let newestShown = -1; // the frame that was acknowledged last
let newestTiles = -1; // the frame of the newest tiles: video of before is not drawn over them

const video = new Video((error) => {
  console.warn("the video decoder has failed:", error.message);
  failures += 1;
  if (failures >= MOST_FAILURES) withoutVideo("The video decoder of this browser has failed: pictures come lossless");
  connection.restart();
});

const connection = new Connection(takeToken(), {
  open() {
    session += 1;
    order = Promise.resolve();
    decoding = Promise.resolve();
    newestShown = newestTiles = -1;
    quickest = Infinity;
    hasEnded = false;
    video.close();
    input.reset();
    connection.send({ type: "hello", version: messages.VERSION, codecs: canDecode ? ["h264", "vp9", "av1"] : [] });
    if ($("quality").value !== "auto" || !canDecode) sendQuality();
    connection.send({ type: "ping", time: performance.now() });
    input.resize();
  },
  message(data) {
    if (typeof data === "string") pong(JSON.parse(data));
    else take(data, session);
  },
  waiting(seconds, isRefused) {
    if (hasEnded) return;
    const when = seconds < 1 ? "now" : `in ${seconds.toFixed(0)} s`;
    if (isRefused) {
      status.state("refused", REFUSED, true);
    } else {
      const text = config ? "The connection is lost" : "The server does not answer";
      status.state(config ? "lost" : "connecting", `${text}. Trying again ${when}.`, seconds >= 1);
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

function take(data, from) {
  let message;
  try {
    message = messages.decode(data);
  } catch (error) {
    console.error(error);
    connection.restart();
    return;
  }
  // Unpacking begins at once, and the pictures before it are shown meanwhile.
  const ready = message.type === "tiles" ? tiles.inflate(message.data, message.size) : null;
  ready?.catch(() => {}); // it is reported below
  order = order.then(async () => {
    if (from === session) await show(message, ready, from);
  }).catch((error) => {
    console.error(error);
    if (from === session) connection.restart();
  });
}

async function show(message, ready, from) {
  switch (message.type) {
    case "config":
      await configure(message);
      break;
    case "tiles": {
      const bytes = await ready;
      await Promise.race([decoding, new Promise((done) => setTimeout(done, PATIENCE))]);
      if (from !== session) return;
      newestTiles = message.frame;
      layout.resize(message.width, message.height);
      tiles.draw(context, message.rectangles, bytes);
      shown(message);
      break;
    }
    case "video": {
      layout.resize(message.width, message.height);
      const { frame, width, height } = message;
      // The next access unit goes to the decoder before this one's picture is there: decoders work in parallel.
      decoding = video.decode(frame, message.isKey, message.data, (picture) => {
        if (from === session && frame > newestTiles) context.drawImage(picture, 0, 0, width, height, 0, 0, width, height);
      });
      decoding.then((isShown) => isShown && from === session && shown(message));
      break;
    }
    case "end":
      hasEnded = true;
      status.state("ended", message.why ? `The picture has ended: ${message.why}` : "The picture has ended.", true);
      break;
  }
}

async function configure(message) {
  config = message;
  layout.resize(message.width, message.height);
  status.source(message.name, message.width, message.height);
  if (message.codec && canDecode && !(await video.configure(message.codec, message.width, message.height))) {
    connection.send({ type: "mode", mode: "lossless" });
  }
}

/** Says how the newest picture came. */
function label(isLossless) {
  status.mode(isLossless ? "lossless" : `video ${messages.nameOf(video.codec)}`, isLossless);
  root.dataset.mode = isLossless ? "lossless" : "video";
}

/** A picture is on the canvas: the server may send another, and the texts around it follow. */
function shown(message) {
  if (message.frame <= newestShown) return; // tiles went before it
  newestShown = message.frame;
  connection.send({ type: "ack", frame: message.frame });
  label(message.type === "tiles");
  status.shown(message.time ? performance.now() + clock - message.time : NaN);
  root.dataset.frames = String(Number(root.dataset.frames || 0) + 1);
  root.dataset.frame = String(message.frame);
  status.state("shown");
  // A canvas that is not shown yet cannot have the focus.
  if (root.dataset.frames === "1" && document.activeElement === document.body) canvas.focus({ preventScroll: true });
}

function sendQuality() {
  connection.send({ type: "mode", mode: canDecode ? $("quality").value : "lossless" });
}

function withoutVideo(why) {
  canDecode = false;
  $("quality").value = "lossless";
  $("quality").disabled = true;
  $("quality").title = why;
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
if (!hasVideo) withoutVideo("This browser has no WebCodecs here: pictures come lossless");
connection.open();

// Pictures on a canvas, from the messages of one connection after the other: in their order, and acknowledged.

import * as messages from "/messages.js";
import { Screen } from "/screen.js";
import * as tiles from "/tiles.js";
import { Video, hasVideo } from "/video.js";

const MOST_FAILURES = 2;
const PATIENCE = 500; // ms for the pictures of a decoder before tiles are drawn without them

export class Player {
  #screen;
  #layout;
  #on;
  #session = 0; // of the connection: work for an earlier one is given up
  #order = Promise.resolve(); // pictures are shown one after the other, whatever their decoders take
  #decoding = Promise.resolve(); // the newest access unit's picture
  #newestShown = -1; // the frame that was acknowledged last
  #newestTiles = -1; // the frame of the newest tiles: video of before is not drawn over them
  #canDecode = hasVideo; // until the decoder has failed MOST_FAILURES times
  #failures = 0;
  #video = new Video((error) => this.#broken(error));

  /** send(message) takes what the server is to get, and restart() begins a new connection. The others are
   *  notified: configured(message), shown(message) once for each picture, ended(why), awaits(text) where a
   *  further picture may come much later, withoutVideo(why). */
  constructor(canvas, layout, on) {
    this.#screen = new Screen(canvas);
    this.#layout = layout;
    this.#on = on;
    if (!hasVideo) on.withoutVideo("This browser has no WebCodecs here: pictures come lossless");
  }

  get canDecode() { return this.#canDecode; }

  /** The name of the video's codec. */
  get codec() { return messages.nameOf(this.#video.codec); }

  /** A connection begins. */
  begin() {
    this.#session += 1;
    this.#order = Promise.resolve();
    this.#decoding = Promise.resolve();
    this.#newestShown = this.#newestTiles = -1;
    this.#video.close();
    this.#on.send({
      type: "hello", version: messages.VERSION, codecs: this.#canDecode ? ["h264", "vp9", "av1"] : [],
    });
  }

  /** Ends it all. */
  close() {
    this.#session += 1;
    this.#video.close();
    this.#screen.close();
  }

  /** Shows a message, after those before it. */
  take(data) {
    const from = this.#session;
    let message;
    try {
      message = messages.decode(data);
    } catch (error) {
      console.error(error);
      this.#on.restart();
      return;
    }
    // Unpacking begins at once, and the pictures before it are shown meanwhile.
    const ready = message.type === "tiles" ? tiles.inflate(message.data, message.size) : null;
    ready?.catch(() => {}); // it is reported below
    this.#order = this.#order.then(async () => {
      if (from === this.#session) await this.#show(message, ready, from);
    }).catch((error) => {
      console.error(error);
      if (from === this.#session) this.#on.restart();
    });
  }

  async #show(message, ready, from) {
    switch (message.type) {
      case "config":
        await this.#configure(message);
        break;
      case "tiles": {
        const bytes = await ready;
        await Promise.race([this.#decoding, new Promise((done) => setTimeout(done, PATIENCE))]);
        if (from !== this.#session) return;
        this.#newestTiles = message.frame;
        this.#layout.resize(message.width, message.height);
        this.#screen.showTiles(message.rectangles, bytes);
        this.#shown(message);
        break;
      }
      case "video": {
        this.#layout.resize(message.width, message.height);
        const { frame, width, height } = message;
        // The next access unit goes to the decoder before this one's picture is there: decoders work in parallel.
        this.#decoding = this.#video.decode(frame, message.isKey, message.data, (picture) => {
          if (from === this.#session && frame > this.#newestTiles) {
            this.#screen.showVideo(picture, width, height);
          }
        });
        this.#decoding.then((isShown) => isShown && from === this.#session && this.#shown(message));
        break;
      }
      case "end":
        this.#on.ended(message.why);
        break;
      case "wait":
        this.#on.awaits(message.text);
        break;
    }
  }

  async #configure(message) {
    this.#layout.resize(message.width, message.height);
    this.#on.configured(message);
    if (!message.codec || !this.#canDecode) return;
    if (!(await this.#video.configure(message.codec, message.width, message.height))) {
      // The hello of the next connection says so: no mode that the user chooses brings video then.
      this.#canDecode = false;
      this.#on.withoutVideo("This browser cannot decode the video: pictures come lossless");
      this.#on.restart();
    }
  }

  /** A picture is on the canvas: the server may send another. */
  #shown(message) {
    if (message.frame <= this.#newestShown) return; // tiles went before it
    this.#newestShown = message.frame;
    this.#on.send({ type: "ack", frame: message.frame });
    this.#on.shown(message);
  }

  #broken(error) {
    console.warn("the video decoder has failed:", error.message);
    this.#failures += 1;
    if (this.#failures >= MOST_FAILURES) {
      this.#canDecode = false;
      this.#on.withoutVideo("The video decoder of this browser has failed: pictures come lossless");
    }
    this.#on.restart();
  }
}

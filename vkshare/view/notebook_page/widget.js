// A picture in a notebook's cell. The messages are those of the page, and a comm of the notebook's carries them.

import { Input } from "/input.js";
import { Layout } from "/layout.js";
import { Player } from "/player.js";

const RATE_OVER = 1000; // ms over which pictures are counted
const TEXT_EVERY = 500; // ms
const AGAIN_AFTER = 500; // ms from a message that was wrong to a new beginning
const SMALLEST = 320; // CSS pixels: smaller pictures are enlarged by whole numbers

/** A number that no other view of the picture has. It is no secret. */
const newId = () => `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;

class PictureView {
  #id = newId();
  #model;
  #canvas = document.createElement("canvas");
  #stage = document.createElement("div");
  #facts = document.createElement("div");
  #layout;
  #player;
  #input;
  #times = []; // of the pictures of the last second
  #source = null; // the newest CONFIG
  #state = "waiting for a picture";
  #timer = 0;
  #listener = (content, buffers) => content.view === this.#id && this.#take(content, buffers ?? []);

  constructor(model, el) {
    this.#model = model;
    el.classList.add("vkshare-picture");
    // The notebook's own shortcuts and menus are not for what is typed into the picture.
    el.dataset.lmSuppressShortcuts = "true";
    for (const kind of ["keydown", "keyup", "keypress", "contextmenu", "dblclick"]) {
      el.addEventListener(kind, (event) => event.stopPropagation());
    }
    this.#stage.className = "vkshare-stage";
    this.#facts.className = "vkshare-facts";
    this.#facts.setAttribute("role", "status");
    this.#canvas.width = this.#canvas.height = 1; // as the layout begins
    this.#canvas.tabIndex = 0;
    this.#canvas.setAttribute("role", "application");
    this.#stage.append(this.#canvas);
    el.append(this.#stage, this.#facts);
    this.#layout = new Layout(this.#canvas, this.#stage);
    this.#player = new Player(this.#canvas, this.#layout, {
      send: (message) => this.#send(message),
      restart: () => setTimeout(() => this.#begin(), AGAIN_AFTER),
      configured: (message) => this.#configured(message),
      shown: (message) => this.#shown(message),
      ended: (why) => this.#ended(why),
      awaits: (text) => this.#ended("", text),
      withoutVideo() {}, // the hello says so
    });
    this.#input = new Input(this.#canvas, this.#stage, this.#layout, {
      send: (event) => this.#send({ type: "event", ...event }),
      leave: () => this.#canvas.blur(),
    });
    model.on("msg:custom", this.#listener);
    this.#timer = setInterval(() => this.#tell(), TEXT_EVERY);
    this.#begin();
  }

  /** The cell's output is gone. */
  close() {
    clearInterval(this.#timer);
    this.#model.off("msg:custom", this.#listener);
    this.#player.close();
    this.#model.send({ view: this.#id, leaves: true });
    this.#model = null;
  }

  #send(message) {
    this.#model?.send({ view: this.#id, message });
  }

  #begin() {
    if (this.#model === null) return;
    this.#player.begin();
    this.#input.reset();
    this.#input.resize();
  }

  #take(content, buffers) {
    if (content.again) this.#begin(); // the source has another size, and the kernel another viewer
    for (const { buffer, byteOffset, byteLength } of buffers) {
      this.#player.take(buffer.slice(byteOffset, byteOffset + byteLength));
    }
  }

  #configured(message) {
    this.#source = message;
    const { name, width, height } = message;
    const times = Math.max(1, Math.floor(SMALLEST / width));
    this.#stage.style.width = `min(100%, ${width * times}px)`;
    this.#stage.style.aspectRatio = `${width} / ${height}`;
    this.#layout.update();
    this.#canvas.setAttribute("aria-label", `The shared picture ${name}, ${width} by ${height} pixels`);
  }

  #shown(message) {
    const now = performance.now();
    this.#times = [...this.#times.filter((time) => now - time < RATE_OVER), now];
    this.#state = message.type === "tiles" ? "lossless" : `video ${this.#player.codec}`;
    this.#canvas.classList.remove("ended");
    this.#canvas.dataset.frames = String(Number(this.#canvas.dataset.frames || 0) + 1);
  }

  #ended(why, text = why ? `ended: ${why}` : "ended") {
    this.#state = text;
    this.#canvas.classList.add("ended");
    this.#tell();
  }

  #tell() {
    const now = performance.now();
    this.#times = this.#times.filter((time) => now - time < RATE_OVER);
    const { name = "", width = 0, height = 0 } = this.#source ?? {};
    const size = width ? `${width} \u00d7 ${height}` : "";
    const rate = this.#times.length ? `${this.#times.length} /s` : "";
    const text = [name, size, this.#state, rate].filter(Boolean).join(" \u00b7 ");
    if (this.#facts.textContent !== text) this.#facts.textContent = text;
  }
}

/** Called by anywidget for each place where the picture is shown; the function that it returns ends that. */
function render({ model, el }) {
  const view = new PictureView(model, el);
  return () => view.close();
}

export default { render };

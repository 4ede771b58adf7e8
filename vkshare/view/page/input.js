// Keys, pointers, wheel and size: in rendercanvas's vocabulary, in the order in which they happened.

const BUTTONS = [1, 3, 2]; // of the web's 0, 1, 2 (left, middle, right); rendercanvas has 1 left, 2 right, 3 middle
const NOTCH = 100; // units of a turn of the wheel by one notch
const LINES = 3; // that browsers scroll for one notch
const MODIFIERS = ["Alt", "Control", "Meta", "Shift"];
const LEFT_TO_THE_BROWSER = new Set(["F5", "F6", "F11", "F12"]);

const buttonOf = (number) => BUTTONS[number] ?? number + 1;

function modifiersOf(event) {
  const held = [event.altKey, event.ctrlKey, event.metaKey, event.shiftKey];
  return MODIFIERS.filter((_, index) => held[index]);
}

function buttonsOf(mask) {
  const found = [];
  for (let bit = 0; bit < 5; bit++) {
    if (mask & (1 << bit)) found.push([1, 2, 3, 4, 5][bit]); // the mask's order is left, right, middle
  }
  return found;
}

export class Input {
  #canvas;
  #layout;
  #send;
  #move = null; // the newest move, until the next frame of the screen or the next other event
  #keys = new Map(); // physical key -> the key that it was when it went down
  #touches = new Set();
  #pressed = null; // where the pointer went down last

  /** send(event) is called with each event, leave() when the user wants the focus to go elsewhere. */
  constructor(canvas, stage, layout, { send, leave }) {
    this.#canvas = canvas;
    this.#layout = layout;
    this.#send = send;
    const on = (kind, handler, options) => canvas.addEventListener(kind, handler, options);
    on("pointerdown", (event) => this.#press(event));
    on("pointerup", (event) => this.#lift(event));
    on("pointercancel", (event) => this.#lift(event));
    on("pointermove", (event) => this.#moved(event));
    on("pointerenter", (event) => this.#emit(this.#pointer("pointer_enter", event, 0)));
    on("pointerleave", (event) => this.#emit(this.#pointer("pointer_leave", event, 0)));
    on("dblclick", (event) => this.#doubleClick(event));
    on("wheel", (event) => this.#wheel(event), { passive: false });
    on("contextmenu", (event) => event.preventDefault());
    on("keydown", (event) => this.#keyDown(event, leave));
    on("keyup", (event) => this.#keyUp(event));
    on("blur", () => this.releaseKeys());
    new ResizeObserver(() => this.resize()).observe(stage);
  }

  /** Sends the room that the page has; a connection begins with it. */
  resize() {
    const [width, height] = this.#layout.room;
    this.#emit({ event_type: "resize", width, height, pixel_ratio: window.devicePixelRatio || 1 });
  }

  /** Sends a key_up for each key that is down: the page will not see them go up. */
  releaseKeys() {
    for (const key of this.#keys.values()) this.#emit({ event_type: "key_up", key, modifiers: [] });
    this.#keys.clear();
  }

  /** Forgets what is held, for a new connection. */
  reset() {
    this.#keys.clear();
    this.#touches.clear();
    this.#move = null;
  }

  #emit(event) {
    this.#flush();
    this.#send(event);
  }

  #flush() {
    const move = this.#move;
    this.#move = null;
    if (move) this.#send(move);
  }

  #pointer(event_type, event, button, at = event) {
    const [x, y] = this.#layout.pixelAt(at.clientX, at.clientY);
    const fields = { event_type, x, y, button, buttons: buttonsOf(event.buttons), modifiers: modifiersOf(event) };
    return { ...fields, ntouches: this.#touches.size };
  }

  #press(event) {
    event.preventDefault();
    this.#canvas.focus({ preventScroll: true });
    if (event.pointerType === "touch") this.#touches.add(event.pointerId);
    try {
      this.#canvas.setPointerCapture(event.pointerId); // moves and the release arrive from outside of the picture too
    } catch {
      // The pointer is gone already: a touch that ended at once.
    }
    this.#pressed = { clientX: event.clientX, clientY: event.clientY };
    this.#emit(this.#pointer("pointer_down", event, buttonOf(event.button)));
  }

  #lift(event) {
    const button = event.type === "pointercancel" ? 1 : buttonOf(event.button);
    this.#emit(this.#pointer("pointer_up", event, button));
    this.#touches.delete(event.pointerId);
  }

  /** The web reports a second button that goes down or up, while a first one is down, as a move. */
  #moved(event) {
    if (event.button >= 0 && event.pointerType === "mouse") {
      const isDown = (event.buttons & [1, 4, 2, 8, 16][event.button]) !== 0;
      this.#emit(this.#pointer(isDown ? "pointer_down" : "pointer_up", event, buttonOf(event.button)));
      return;
    }
    const isFirst = this.#move === null;
    this.#move = this.#pointer("pointer_move", event, 0);
    if (isFirst) requestAnimationFrame(() => this.#flush());
  }

  #doubleClick(event) {
    // Browsers round the place of a double click to whole CSS pixels, and that of the press not.
    const press = this.#pressed ?? event;
    const isNear = Math.hypot(press.clientX - event.clientX, press.clientY - event.clientY) < 2;
    const at = isNear ? press : event;
    const { ntouches, ...fields } = this.#pointer("double_click", event, buttonOf(event.button), at);
    this.#emit(fields);
  }

  #wheel(event) {
    event.preventDefault();
    const unit = [1, NOTCH / LINES, this.#layout.room[1]][event.deltaMode] ?? 1;
    const { ntouches, button, ...fields } = this.#pointer("wheel", event, 0);
    this.#emit({ ...fields, dx: event.deltaX * unit, dy: event.deltaY * unit });
  }

  #keyDown(event, leave) {
    if (event.key === "F6") {
      event.preventDefault();
      leave();
      return;
    }
    if (LEFT_TO_THE_BROWSER.has(event.key) || event.isComposing) return;
    const isCommand = event.ctrlKey || event.metaKey; // Ctrl+R reloads the page, and the program gets the keys too
    if (!isCommand && !event.altKey) event.preventDefault();
    const modifiers = modifiersOf(event);
    if (!event.repeat) {
      this.#keys.set(event.code || event.key, event.key);
      this.#emit({ event_type: "key_down", key: event.key, modifiers });
    }
    if ([...event.key].length === 1 && !isCommand) this.#emit({ event_type: "char", char_str: event.key, modifiers });
  }

  #keyUp(event) {
    const code = event.code || event.key;
    if (!this.#keys.has(code)) return;
    const key = this.#keys.get(code); // "A" that went down with Shift goes up as "A"
    this.#keys.delete(code);
    this.#emit({ event_type: "key_up", key, modifiers: modifiersOf(event) });
  }
}

// The WebSocket, which comes back by itself.

const PROTOCOL = "vkshare.view.1";
const FIRST_WAIT = 250; // ms before the second attempt; each further wait is twice as long
const LONGEST_WAIT = 8000;
const RESTART = 1012; // the server goes on, with another size of the picture
const PING_EVERY = 5000;
const SILENCE = 60000; // ms without an answer until the connection counts as lost; a large picture may be before it

/** Takes the token out of the address bar, so that no screenshot or bookmark has it. The tab keeps it. */
export function takeToken() {
  const found = /^#([A-Za-z0-9_-]{22,256})$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem("token", found[1]);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem("token") ?? "";
}

export class Connection {
  #token;
  #handlers;
  #socket = null;
  #attempts = 0; // that failed since the last message
  #timer = 0;
  #pinger = 0;
  #heard = 0; // when the last message came

  /** handlers: open(), message(data), waiting(seconds, isRefused), each called when it happens. */
  constructor(token, handlers) {
    this.#token = token;
    this.#handlers = handlers;
    addEventListener("online", () => this.#wake());
    document.addEventListener("visibilitychange", () => document.hidden || this.#wake());
    addEventListener("pagehide", () => this.close(1000));
    addEventListener("pageshow", (event) => event.persisted && this.open());
  }

  get isOpen() { return this.#socket?.readyState === WebSocket.OPEN; }

  /** Connects, now. */
  open() {
    clearTimeout(this.#timer);
    this.#drop();
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/view`, [PROTOCOL, `token.${this.#token}`]);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    let hasOpened = false;
    const own = (handler) => (event) => socket === this.#socket && handler(event);
    socket.onopen = own(() => {
      hasOpened = true;
      this.#heard = performance.now();
      this.#pinger = setInterval(() => this.#ping(), PING_EVERY);
      this.#handlers.open();
    });
    socket.onmessage = own((event) => {
      this.#heard = performance.now();
      this.#attempts = 0;
      this.#handlers.message(event.data);
    });
    socket.onclose = own((event) => this.#lost(hasOpened, event));
  }

  /** Sends one message as JSON; false where no connection is open. */
  send(message) {
    if (!this.isOpen) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  /** Ends the connection and connects anew: what the page has is of no use. */
  restart() {
    this.#drop();
    this.#again(false);
  }

  /** Ends the connection for good. */
  close(code = 1000) {
    clearTimeout(this.#timer);
    this.#drop(code);
  }

  #drop(code = 1000) {
    clearInterval(this.#pinger);
    const socket = this.#socket;
    this.#socket = null;
    if (socket && socket.readyState < WebSocket.CLOSING) socket.close(code);
  }

  #ping() {
    if (performance.now() - this.#heard > SILENCE) this.restart();
    else this.send({ type: "ping", time: performance.now() });
  }

  /** The network, or the tab, has come back. */
  #wake() {
    if (this.isOpen) this.#ping();
    else if (this.#timer) this.open();
  }

  async #lost(hasOpened, event) {
    this.#drop();
    if (event.code === RESTART) {
      this.open();
      return;
    }
    // A refused WebSocket looks to a page as a server that is not there does. The page's own file shows which it is.
    const isRefused = !hasOpened && event.code === 1006 && (await this.#isThere());
    if (this.#socket === null) this.#again(isRefused);
  }

  async #isThere() {
    try {
      return (await fetch("/", { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(3000) })).ok;
    } catch {
      return false;
    }
  }

  #again(isRefused) {
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#attempts) * (0.75 + 0.5 * Math.random());
    this.#attempts = Math.min(this.#attempts + 1, 16);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.open();
    }, wait);
    this.#handlers.waiting(wait / 1000, isRefused);
  }
}

// The texts around the picture: how it is sent, its size, its rate, its age, and the state of the connection.

const $ = (id) => document.getElementById(id);

export class Status {
  #shown = []; // times of the pictures of the last second
  #ages = []; // of the pictures of the last second, ms

  constructor() {
    setInterval(() => this.#update(), 500);
  }

  /** One of "connecting", "shown", "waiting", "lost", "refused", "ended", and a sentence about it. */
  state(state, text = "", canRetry = false) {
    const root = document.documentElement;
    if (root.dataset.state !== state) root.dataset.state = state;
    if ($("notice-text").textContent !== text) $("notice-text").textContent = text;
    $("retry").hidden = !canRetry;
  }

  /** Where it is said from now on: the source's name and size. */
  source(name, width, height) {
    const title = name || "a shared picture";
    $("name").textContent = title;
    document.title = name ? `${name} - vkshare` : "vkshare";
    $("picture").setAttribute("aria-label", `The shared picture ${title}, ${width} by ${height} pixels`);
    $("size").textContent = `${width} \u00d7 ${height}`;
  }

  /** "lossless", or "video" and its codec. */
  mode(text, isLossless) {
    const badge = $("mode");
    if (badge.textContent !== text) badge.textContent = text;
    badge.dataset.lossless = String(isLossless);
  }

  /** A picture was shown; `age` is its age in ms, NaN where that is not known. */
  shown(age) {
    const now = performance.now();
    this.#shown.push(now);
    if (Number.isFinite(age)) this.#ages.push([now, age]);
    if (this.#shown.length > 512) this.#forget(now);
  }

  #forget(now) {
    this.#shown = this.#shown.filter((time) => now - time < 1000);
    this.#ages = this.#ages.filter(([time]) => now - time < 1000);
  }

  #update() {
    this.#forget(performance.now());
    const count = this.#shown.length;
    $("rate").textContent = count ? `${count} /s` : "at rest";
    const ages = this.#ages.map(([, age]) => age).sort((a, b) => a - b);
    $("latency").textContent = ages.length ? `${Math.max(0, ages[ages.length >> 1]).toFixed(0)} ms` : "";
  }
}

// The size of the picture on the page: fitted to the room that there is, or one pixel of it for one of the screen.

export class Layout {
  #canvas;
  #stage;
  #width = 1;
  #height = 1;
  #isFitted = true;

  constructor(canvas, stage) {
    this.#canvas = canvas;
    this.#stage = stage;
    new ResizeObserver(() => this.update()).observe(stage);
  }

  get isFitted() { return this.#isFitted; }

  set isFitted(value) {
    this.#isFitted = value;
    this.update();
  }

  /** The room for the picture, in CSS pixels. */
  get room() { return [this.#stage.clientWidth, this.#stage.clientHeight]; }

  /** Sets the picture's size. A canvas that changes its size becomes black. */
  resize(width, height) {
    if (width === this.#width && height === this.#height) return;
    [this.#width, this.#height] = [width, height];
    this.#canvas.width = width;
    this.#canvas.height = height;
    this.update();
  }

  /** Scales by whole numbers of the screen's pixels where the picture is smaller than the room, so that no pixel of
   *  it becomes wider than its neighbour. A larger picture is scaled down smoothly. */
  update() {
    const ratio = window.devicePixelRatio || 1;
    let scale = 1; // pixels of the screen for one of the picture
    if (this.#isFitted) {
      const [width, height] = this.room;
      scale = Math.min((width * ratio) / this.#width, (height * ratio) / this.#height);
      scale = scale >= 1 ? Math.floor(scale) : Math.max(scale, 1 / Math.max(this.#width, this.#height));
    }
    this.#canvas.style.width = `${(this.#width * scale) / ratio}px`;
    this.#canvas.style.height = `${(this.#height * scale) / ratio}px`;
    this.#canvas.classList.toggle("crisp", scale >= 1);
  }

  /** Returns the pixel of the picture, with fractions, at a point of the page. */
  pixelAt(clientX, clientY) {
    const box = this.#canvas.getBoundingClientRect();
    if (!box.width || !box.height) return [0, 0];
    return [((clientX - box.left) * this.#width) / box.width, ((clientY - box.top) * this.#height) / box.height];
  }
}

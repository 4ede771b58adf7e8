// The place of the picture: a canvas, and below it a video element where the browser has tracks that a page can write.

import * as tiles from "/tiles.js";

const MOST_TRIES = 60; // pictures on a visible page until a video element that has shown none is given up
const MOST_WAITING = 3; // pictures that a track has not taken yet until it is given up

/** A video element of the pictures that show() gets. The browser puts them on the screen without the copies that a
 *  canvas takes: to convert, to draw, and to hand over at each frame of the screen. */
class VideoLayer {
  #element = document.createElement("video");
  #writer = null; // from the first picture on: an element that waits for one would delay the page's load event
  #onSeen;
  #isSeen = false;
  #isAwaited = false; // onSeen comes with the next picture of the element
  #tries = 0;
  #isOver = false;

  static get isPossible() {
    return typeof MediaStreamTrackGenerator === "function" && "requestVideoFrameCallback" in HTMLVideoElement.prototype;
  }

  /** onSeen() is called when the element shows the first picture since rest(). */
  constructor(canvas, onSeen) {
    this.#onSeen = onSeen;
    const frame = document.createElement("div");
    frame.className = "vkshare-frame";
    canvas.replaceWith(frame);
    this.#element.muted = true; // browsers begin no other video by themselves
    this.#element.disablePictureInPicture = true;
    this.#element.setAttribute("aria-hidden", "true");
    frame.append(this.#element, canvas);
  }

  /** Whether the element shows the newest pictures. */
  get isSeen() { return this.#isSeen; }

  show(picture) {
    if (this.#isOver) return;
    if (!this.#writer) this.#begin();
    if (!this.#isAwaited && !this.#isSeen) {
      this.#isAwaited = true;
      this.#element.requestVideoFrameCallback(() => this.#seen());
    }
    const copy = picture.clone(); // the element's own, which the browser closes
    this.#writer.write(copy).catch(() => {
      copy.close();
      this.close();
    });
    const isBlind = this.#isAwaited && !document.hidden && ++this.#tries > MOST_TRIES;
    if (isBlind || this.#writer.desiredSize < -MOST_WAITING) this.close();
  }

  /** Other pictures are on the canvas now. */
  rest() {
    this.#isSeen = this.#isAwaited = false;
    this.#tries = 0;
  }

  close() {
    this.#isOver = true;
    this.rest();
    this.#element.srcObject = null;
    this.#writer?.close().catch(() => {});
  }

  #begin() {
    const track = new MediaStreamTrackGenerator({ kind: "video" });
    this.#writer = track.writable.getWriter();
    this.#element.srcObject = new MediaStream([track]);
    this.#element.play().catch(() => this.close());
  }

  #seen() {
    if (!this.#isAwaited) return; // tiles went before it
    this.#isAwaited = false;
    this.#isSeen = true;
    this.#onSeen();
  }
}

export class Screen {
  #canvas;
  #context;
  #layer = null;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false, colorSpace: "srgb" });
    if (VideoLayer.isPossible) this.#layer = new VideoLayer(canvas, () => this.#uncover(true));
  }

  /** Shows unpacked rectangles; what was video before is covered by the canvas, which they must then fill. */
  showTiles(rectangles, bytes) {
    tiles.draw(this.#context, rectangles, bytes);
    this.#layer?.rest();
    this.#uncover(false);
  }

  /** Shows a VideoFrame, of which the part of this size counts. The frame stays the caller's. */
  showVideo(picture, width, height) {
    const isWhole = picture.displayWidth === width && picture.displayHeight === height; // else its edges are padded
    if (isWhole) this.#layer?.show(picture);
    if (isWhole && this.#layer?.isSeen) return;
    this.#context.drawImage(picture, 0, 0, width, height, 0, 0, width, height);
    this.#uncover(false);
  }

  close() {
    this.#layer?.close();
  }

  /** The canvas keeps the pointer and the focus where the video is seen. */
  #uncover(isVideo) {
    this.#canvas.style.opacity = isVideo ? "0" : "";
  }
}

// Video pictures: WebCodecs decodes them, and they are drawn on the same canvas as the tiles.

export const hasVideo = typeof VideoDecoder === "function";

export class Video {
  #decoder = null;
  #codec = "";
  #draw;
  #fail;
  #waiting = new Map(); // timestamp -> how the wait for its picture ends

  /** draw(frame) draws a decoded VideoFrame; fail(error) is called once where the decoder gives up. */
  constructor(draw, fail) {
    this.#draw = draw;
    this.#fail = fail;
  }

  /** Prepares for a codec; false where the browser has it not. */
  async configure(codec, width, height) {
    this.close();
    const config = { codec, codedWidth: width, codedHeight: height, optimizeForLatency: true };
    if (!hasVideo || !(await VideoDecoder.isConfigSupported(config)).supported) return false;
    const decoder = new VideoDecoder({
      output: (frame) => this.#shown(frame),
      error: (error) => decoder === this.#decoder && this.#broken(error),
    });
    decoder.configure(config);
    this.#decoder = decoder;
    this.#codec = codec;
    return true;
  }

  get codec() { return this.#codec; }

  /** Decodes an access unit; the promise ends when its picture is drawn, or given up. */
  decode(timestamp, isKey, data) {
    if (!this.#decoder || this.#decoder.state !== "configured") return Promise.resolve(false);
    return new Promise((done) => {
      this.#waiting.set(timestamp, done);
      try {
        this.#decoder.decode(new EncodedVideoChunk({ type: isKey ? "key" : "delta", timestamp, data }));
      } catch (error) {
        this.#broken(error);
      }
    });
  }

  close() {
    const decoder = this.#decoder;
    this.#decoder = null;
    if (decoder && decoder.state !== "closed") decoder.close();
    for (const done of this.#waiting.values()) done(false);
    this.#waiting.clear();
  }

  #shown(frame) {
    try {
      this.#draw(frame);
    } finally {
      const done = this.#waiting.get(frame.timestamp);
      this.#waiting.delete(frame.timestamp);
      frame.close();
      done?.(true);
    }
  }

  #broken(error) {
    this.close();
    this.#fail(error);
  }
}

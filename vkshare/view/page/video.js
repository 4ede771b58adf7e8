// Video pictures: WebCodecs decodes them, and they are drawn on the same canvas as the tiles.

export const hasVideo = typeof VideoDecoder === "function";

export class Video {
  #decoder = null;
  #codec = "";
  #fail;
  #waiting = new Map(); // number of an access unit -> what is done with its picture, and how the wait for it ends

  /** fail(error) is called once where the decoder gives up. */
  constructor(fail) {
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

  /** Decodes an access unit, and calls draw() with its VideoFrame; the promise ends then, or when it is given up.
   *  Decoders pass timestamps through as they are: the unit's number is one that no other unit has. */
  decode(number, isKey, data, draw) {
    if (!this.#decoder || this.#decoder.state !== "configured") return Promise.resolve(false);
    return new Promise((done) => {
      this.#waiting.set(number, { draw, done });
      try {
        this.#decoder.decode(new EncodedVideoChunk({ type: isKey ? "key" : "delta", timestamp: number, data }));
      } catch (error) {
        this.#broken(error);
      }
    });
  }

  close() {
    const decoder = this.#decoder;
    this.#decoder = null;
    if (decoder && decoder.state !== "closed") decoder.close();
    for (const { done } of this.#waiting.values()) done(false);
    this.#waiting.clear();
  }

  #shown(frame) {
    const waiting = this.#waiting.get(frame.timestamp);
    this.#waiting.delete(frame.timestamp);
    try {
      waiting?.draw(frame);
    } finally {
      frame.close();
      waiting?.done(true);
    }
  }

  #broken(error) {
    this.close();
    this.#fail(error);
  }
}

// The server's messages: vkshare/view/messages.py, little endian.

export const VERSION = 1;

const CONFIG = 1;
const TILES = 2;
const VIDEO = 3;
const END = 4;
const WAIT = 5;
const HEAD = 32; // bytes of TILES and VIDEO before their contents
const LARGEST = 1 << 15; // pixels of a side
const NAMES = { avc1: "h264", vp09: "vp9", vp8: "vp8", av01: "av1" };

/** Returns what people call a codec of WebCodecs. */
export const nameOf = (codec) => NAMES[codec.split(".")[0]] ?? codec;

/** Returns a message as an object; a RangeError where its bytes are not one. */
export function decode(data) {
  const view = new DataView(data);
  switch (view.getUint8(0)) {
    case CONFIG:
      return config(view);
    case TILES:
      return tiles(view);
    case VIDEO:
      return { type: "video", ...picture(view), isKey: (view.getUint8(1) & 1) !== 0, data: new Uint8Array(data, HEAD) };
    case END:
      return { type: "end", why: text(view, 4, data.byteLength - 4) };
    case WAIT:
      return { type: "wait", text: text(view, 4, data.byteLength - 4) };
    default:
      throw new RangeError(`unknown message ${view.getUint8(0)}`);
  }
}

const text = (view, offset, size) => new TextDecoder().decode(new Uint8Array(view.buffer, offset, size));

function size(view, offset) {
  const [width, height] = [view.getUint32(offset, true), view.getUint32(offset + 4, true)];
  if (!width || !height || width > LARGEST || height > LARGEST) throw new RangeError(`a picture of ${width}x${height}`);
  return { width, height };
}

function config(view) {
  const [codec, name] = [view.getUint16(12, true), view.getUint16(14, true)];
  return { type: "config", ...size(view, 4), codec: text(view, 16, codec), name: text(view, 16 + codec, name) };
}

/** What TILES and VIDEO have in common; `time` is the server's clock in ms, `timestamp` the decoder's in us. */
function picture(view) {
  const nanoseconds = view.getBigUint64(16, true);
  const [time, timestamp] = [Number(nanoseconds) / 1e6, Number(nanoseconds / 1000n)];
  return { frame: Number(view.getBigUint64(8, true)), time, timestamp, ...size(view, 24) };
}

function tiles(view) {
  const count = view.getUint32(4, true);
  const shown = picture(view);
  const rectangles = [];
  let bytes = 0;
  for (let i = 0; i < count; i++) {
    const [x, y, width, height] = new Uint32Array(view.buffer, HEAD + 16 * i, 4);
    if (x + width > shown.width || y + height > shown.height) throw new RangeError("a rectangle outside of the picture");
    rectangles.push({ x, y, width, height });
    bytes += 4 * width * height;
  }
  if (bytes > 8 * shown.width * shown.height) throw new RangeError("rectangles larger than the picture");
  return { type: "tiles", ...shown, rectangles, size: bytes, data: new Uint8Array(view.buffer, HEAD + 16 * count) };
}

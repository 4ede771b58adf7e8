// Lossless pictures: rectangles of RGBA rows in one raw deflate stream, unpacked by the browser's own decoder.

/** Unpacks exactly `size` bytes; throws where the stream has more, or fewer. */
export async function inflate(packed, size) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const reader = stream.getReader();
  const bytes = new Uint8Array(size);
  let filled = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (filled + value.length > size) {
      await reader.cancel();
      throw new RangeError(`the tiles have more than their ${size} bytes`);
    }
    bytes.set(value, filled);
    filled += value.length;
  }
  if (filled !== size) throw new RangeError(`the tiles have ${filled} bytes, not ${size}`);
  return bytes;
}

/** Puts unpacked rectangles on a canvas. Colours are shown as stored and alpha is set to opaque, because the canvas
 *  would multiply and round colours of another alpha. */
export function draw(context, rectangles, bytes) {
  const words = new Uint32Array(bytes.buffer);
  for (let i = 0; i < words.length; i++) words[i] |= 0xff000000;
  let offset = 0;
  for (const { x, y, width, height } of rectangles) {
    const size = width * height * 4;
    const pixels = new Uint8ClampedArray(bytes.buffer, offset, size);
    context.putImageData(new ImageData(pixels, width, height), x, y);
    offset += size;
  }
}

/** `toBytes` encodes text before it is given to a listener, which takes bytes, or text that is known to be ASCII. */
export const toBytes = (text: string | Uint8Array): Uint8Array =>
  typeof text === 'string' ? Buffer.from(text) : text

/** Copies bytes, because Node's buffers are parts of a shared pool. */
export function toArrayBuffer(bytes: Uint8Array): ArrayBuffer {
  const copy = new ArrayBuffer(bytes.byteLength)
  new Uint8Array(copy).set(bytes)
  return copy
}

/**
 * `toBytes` encodes text before it is given to a listener, which takes bytes, or text that is known to be ASCII.
 */
export const toBytes = (text: string | Uint8Array): Uint8Array =>
  typeof text === 'string' ? Buffer.from(text) : text

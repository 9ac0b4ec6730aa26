/**
 * `toBytes` encodes text before it is given to a listener, which takes bytes only.
 *
 * With newer versions of Node the native listener sends a string whose characters are all below U+0100 as Latin-1.
 */
export const toBytes = (text: string | Uint8Array): Uint8Array =>
  typeof text === 'string' ? Buffer.from(text) : text

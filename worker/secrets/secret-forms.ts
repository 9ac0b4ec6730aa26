/** `secretForms` writes a secret in the forms in which programs usually do, as texts to search for. */

/** Two pieces stand for a longer secret. Both lie behind its beginning, which other tokens may share. */
const WHOLE_BYTES_MAX = 128
const PIECE_BYTES = 64
const BYTES_BEHIND_LAST_PIECE = 32

export function secretForms(secret: Buffer): string[] {
  return piecesOf(secret).flatMap((piece) => [
    ...encodedForms(piece),
    ...encodedTwice(piece),
    ...inText(piece.toString()),
  ])
}

function piecesOf(bytes: Buffer): Buffer[] {
  if (bytes.length <= WHOLE_BYTES_MAX) return [bytes]
  const middle = Math.floor((bytes.length - PIECE_BYTES) / 2)
  const last = bytes.length - PIECE_BYTES - BYTES_BEHIND_LAST_PIECE
  return [middle, last].map((from) => bytes.subarray(from, from + PIECE_BYTES))
}

/** As it is, backwards, in an address and in a form. */
function inText(text: string): string[] {
  const inForm = new URLSearchParams({ s: text }).toString().slice('s='.length)
  return [text, [...text].reverse().join(''), encodeURIComponent(text), inForm]
}

/** Base64 (also for addresses), and each byte as a number: `73`, `%73`, `\x73`, `0x73`, `\u0073`, `115,`. */
function encodedForms(bytes: Buffer): string[] {
  const hexBytes = [...bytes].map((byte) => byte.toString(16).padStart(2, '0'))
  const asNumbers = ['', 'x', '0x', 'u00'].map((mark) => hexBytes.map((hex) => mark + hex).join(''))
  return [...inBase64(bytes), ...asNumbers, [...bytes].join('')]
}

/** A program encodes what another has encoded: a header with a login in a dump, or a login file in a manifest. */
function encodedTwice(bytes: Buffer): string[] {
  const inner = inBase64(bytes).flatMap((text) => [text, text.replaceAll('+', '-').replaceAll('/', '_')])
  return [...new Set(inner)].flatMap((text) => encodedForms(Buffer.from(text)))
}

/** After 0, 1 or 2 other bytes, without the characters that depend on neighbouring bytes. */
function inBase64(bytes: Buffer): string[] {
  return [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replace(/=+$/, '')
    const isWhole = (before + bytes.length) % 3 === 0
    return text.slice(before === 0 ? 0 : before + 1, isWhole ? undefined : -1)
  })
}

/**
 * `SecretMask` overwrites secrets in a stream of bytes with asterisks of the same length.
 *
 * A hostile or careless vendor could repeat the credential in its answer. The mask knows the usual forms of a secret
 * and finds them across the borders of chunks: it holds back only bytes with which a secret may begin. The length stays,
 * so a content length remains true.
 */
import { secretForms } from '../../core/redact-secrets.ts'

const ASTERISK = 0x2a

export class SecretMask {
  readonly #forms: readonly Buffer[]
  readonly #heldBytesMax: number
  /** By byte: 1 where a secret begins with it. Most ends of chunks hold none of these. */
  readonly #beginsSecret = new Uint8Array(256)
  #held: Buffer = Buffer.alloc(0)

  constructor(secrets: readonly string[]) {
    this.#forms = secretForms(secrets).map((form) => Buffer.from(form))
    this.#heldBytesMax = Math.max(0, ...this.#forms.map(({ length }) => length - 1))
    for (const [first = 0] of this.#forms) this.#beginsSecret[first] = 1
  }

  /** Changes the chunk in place where nothing was held back, which saves a copy. */
  push(chunk: Buffer): Buffer {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    for (const form of this.#forms) overwrite(bytes, form)
    const heldBytes = this.#countHeldBytes(bytes)
    this.#held = bytes.subarray(bytes.length - heldBytes)
    return bytes.subarray(0, bytes.length - heldBytes)
  }

  /** The rest, which turned out to be no secret. */
  flush(): Buffer {
    const rest = this.#held
    this.#held = Buffer.alloc(0)
    return rest
  }

  /** Masks a short text that is complete, such as a header's value. */
  maskText(text: string): string {
    const bytes = Buffer.from(text, 'latin1')
    for (const form of this.#forms) overwrite(bytes, form)
    return bytes.toString('latin1')
  }

  /** The longest end of the bytes that is the beginning of a secret. */
  #countHeldBytes(bytes: Buffer): number {
    for (let count = Math.min(this.#heldBytesMax, bytes.length); count > 0; count--) {
      const from = bytes.length - count
      if (this.#beginsSecret[bytes[from] ?? 0] !== 1) continue
      const isBeginning = (form: Buffer) => form.length > count && bytes.compare(form, 0, count, from) === 0
      if (this.#forms.some(isBeginning)) return count
    }
    return 0
  }
}

function overwrite(bytes: Buffer, form: Buffer): void {
  for (let at = bytes.indexOf(form); at >= 0; at = bytes.indexOf(form, at + form.length))
    bytes.fill(ASTERISK, at, at + form.length)
}

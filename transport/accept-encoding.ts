/**
 * `chooseEncoding` reads Accept-Encoding (RFC 9110 §12.5.3): the smallest of the encodings that the client takes.
 *
 * A client that names none gets the plain bytes, although the RFC would allow any: programs that never asked for
 * compressed bytes do not expect them.
 */
export type Encoding = 'br' | 'gzip'

/** The smaller one first. */
const ENCODINGS: readonly Encoding[] = ['br', 'gzip']

/** @param header the value of Accept-Encoding, empty without one */
export function chooseEncoding(
  header: string,
  offered: readonly Encoding[] = ENCODINGS,
): Encoding | undefined {
  if (header === '') return undefined
  const taken = new Map<string, boolean>()
  for (const item of header.toLowerCase().split(',')) {
    const [name = '', ...parameters] = item.split(';').map((part) => part.trim())
    taken.set(name, !parameters.some((parameter) => /^q=0(\.0{0,3})?$/.test(parameter)))
  }
  return ENCODINGS.find((name) => offered.includes(name) && (taken.get(name) ?? taken.get('*') ?? false))
}

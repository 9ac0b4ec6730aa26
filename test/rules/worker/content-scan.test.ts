/** The search for secrets in packed content: archives of any layout, in pieces of any length. */
import { deflateRawSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { ContentScan, ZipScan } from '../../../worker/secrets/content-scan.ts'
import { createSecretSearch } from '../../../worker/secrets/secret-search.ts'

const KEY = 'npk-Ant_03+xZ/9qLmT7vB2nR5wK8dJ4sH1f'
const search = createSecretSearch([{ name: 'key', value: KEY }])

async function find(content: Buffer, pieceBytes = 64 * 1024): Promise<string | undefined> {
  const scan = new ContentScan(search)
  // A reader of files fills one buffer again and again.
  const buffer = Buffer.alloc(pieceBytes)
  for (let at = 0; at < content.length; at += pieceBytes) {
    const bytes = content.copy(buffer, 0, at)
    await scan.push(buffer.subarray(0, bytes))
  }
  return await scan.end()
}

interface Entry {
  readonly name?: string
  readonly extra?: Buffer
  /** 8 is deflate, 0 is none. */
  readonly method?: number
  readonly packed?: Buffer
}

/** An entry of an archive, without sizes and checksum, as programs write it that do not know them yet. */
function entry(
  text: string,
  { name = 'a.txt', extra = Buffer.alloc(0), method = 8, packed }: Entry = {},
): Buffer {
  const header = Buffer.alloc(30)
  header.write('PK\x03\x04', 'latin1')
  header.writeUInt16LE(method, 8)
  header.writeUInt16LE(Buffer.byteLength(name), 26)
  header.writeUInt16LE(extra.length, 28)
  const content = packed ?? (method === 8 ? deflateRawSync(text) : Buffer.from(text))
  return Buffer.concat([header, Buffer.from(name), extra, content])
}

const filler = (length: number) => Array.from({ length }, (_, at) => `line ${at * 7919}`).join('\n')
const descriptor = Buffer.from('PK\x07\x08 twelve bytes', 'latin1')
const directory = Buffer.from('PK\x01\x02 the directory PK\x05\x06', 'latin1')

const ARCHIVES: readonly (readonly [what: string, content: Buffer])[] = [
  ['the only entry', Buffer.concat([entry(KEY), descriptor, directory])],
  ['a later entry', Buffer.concat([entry(filler(900)), descriptor, entry('b'), entry(KEY), directory])],
  ['an entry behind one that is not packed', Buffer.concat([entry('x', { method: 0 }), entry(KEY)])],
  ['an entry with a long name', entry(KEY, { name: 'd/'.repeat(9_000), extra: Buffer.alloc(900, 'PK') })],
  ['a large entry', Buffer.concat([entry(`${filler(90_000)}${KEY}`), directory])],
  ['an archive in another content', Buffer.concat([Buffer.from(filler(90)), entry(KEY), directory])],
  [
    'an archive in an archive',
    Buffer.concat([entry(entry(KEY).toString('latin1'), { method: 0 }), entry(KEY)]),
  ],
  ['an archive that breaks off', entry(`${KEY}${filler(90)}`).subarray(0, 400)],
  [
    'an archive with a damaged entry',
    Buffer.concat([entry('', { packed: Buffer.alloc(300, 0xff) }), entry(KEY), directory]),
  ],
  ['gzip', gzipSync(`${filler(9)}${KEY}`)],
]

describe('found', () => {
  test.each(ARCHIVES)('%s', async (_, content) => {
    const lengths = content.length < 2_000 ? [1, 2, 29, 31] : []
    for (const pieceBytes of [...lengths, 4_096, 1_000_000])
      expect(await find(content, pieceBytes)).toBe('key')
  })

  test('in archives of any entries', async () => {
    const entries = fc.array(
      fc.record({
        text: fc.string({ maxLength: 300 }),
        isPacked: fc.boolean(),
        name: fc.string({ maxLength: 40 }),
      }),
      { maxLength: 5 },
    )
    const property = fc.asyncProperty(
      entries,
      entries,
      fc.integer({ min: 1, max: 90 }),
      async (before, after, bytes) => {
        const packed = (all: typeof before) =>
          all.map(({ text, isPacked, name }) => entry(text, { name, method: isPacked ? 8 : 0 }))
        const content = Buffer.concat([...packed(before), entry(`x${KEY}y`), ...packed(after), directory])
        return (await find(content, bytes)) === 'key'
      },
    )
    await fc.assert(property, { numRuns: 300 })
  })
})

test('a content without the secret holds none, and its own scan begins anew', async () => {
  for (const content of [
    entry(filler(90)),
    Buffer.from('PK\x03\x04 and no header', 'latin1'),
    Buffer.from('PK\x03'),
  ])
    for (const pieceBytes of [1, 1_000]) expect(await find(content, pieceBytes)).toBeUndefined()
  const scan = new ContentScan(search)
  await scan.push(entry(KEY))
  expect(await scan.end()).toBe('key')
  scan.reset()
  await scan.push(Buffer.from('PK'))
  expect(await scan.end()).toBeUndefined()
})

test.each([
  ['entries', { bytesLeft: 10_000, entriesLeft: 2 }, 'key', undefined],
  ['bytes', { bytesLeft: 120, entriesLeft: 10 }, 'key', undefined],
])('of an archive only so many %s are unpacked', async (_, budget, second, third) => {
  const findAfter = async (count: number) => {
    const scan = search.openScan()
    const zip = new ZipScan(scan, { ...budget })
    for (let n = 0; n < count; n += 1) await zip.push(entry('x'.repeat(60)))
    await zip.push(entry(KEY))
    await zip.end()
    return scan.found()
  }
  expect([await findAfter(1), await findAfter(2)]).toEqual([second, third])
})

test('an ordinary content does not wait', () => {
  const scan = new ContentScan(search)
  expect(scan.push(Buffer.from(filler(90)))).toBeUndefined()
  expect(scan.end()).toBeUndefined()
})

/** Tests of name resolution with a real name server, and of the checks of its answers. */
import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import {
  isRemotePublicAddress,
  makeResolver,
  resolveTarget,
} from '../../../../worker/sandbox/egress/connect.ts'

type ServerAnswer = readonly string[] | 'no such name' | 'broken' | 'silence'

const TYPE_A = 1
const NO_SUCH_NAME = 3
const BROKEN = 2

/** The server's answers by name: for A, and for AAAA (as eight groups, written out). */
const ZONE: Readonly<Record<string, readonly [a: ServerAnswer, aaaa: ServerAnswer]>> = {
  'both.example': [['93.184.216.34', '93.184.216.35'], ['2606:2800:220:1:248:1893:25c8:1946']],
  'old.example': [['93.184.216.34'], []],
  'new.example': [[], ['2606:2800:220:1:248:1893:25c8:1946']],
  'empty.example': [[], []],
  'half.example': [['93.184.216.34'], 'broken'],
  'broken.example': ['broken', 'broken'],
  'silent.example': ['silence', 'silence'],
  'rebinding.example': [['93.184.216.34', '127.0.0.1'], []],
  'sneaky.example': [['93.184.216.34'], ['0:0:0:0:0:ffff:a00:1']],
}

const server = createSocket('udp4')
let resolve: ReturnType<typeof makeResolver>
/** A resolver with a short timeout, for names that get no answer. */
let impatientResolve: ReturnType<typeof makeResolver>

beforeAll(async () => {
  server.on('message', (question, from) => {
    const answer = replyTo(question)
    if (answer !== undefined) server.send(answer, from.port, from.address)
  })
  await new Promise<void>((ready) => server.bind(0, '127.0.0.1', ready))
  const asking = (timeout: number) => {
    const asker = new Resolver({ timeout, tries: 1 })
    asker.setServers([`127.0.0.1:${server.address().port}`])
    return makeResolver(asker)
  }
  resolve = asking(20_000)
  impatientResolve = asking(200)
})
afterAll(() => void server.close())

describe('a name', () => {
  test.each([
    ['both.example', ['93.184.216.34', '93.184.216.35', '2606:2800:220:1:248:1893:25c8:1946']],
    ['old.example', ['93.184.216.34']],
    ['new.example', ['2606:2800:220:1:248:1893:25c8:1946']],
    ['empty.example', []],
    ['unknown.example', []],
    ['half.example', ['93.184.216.34']],
  ])('%s has the addresses %j', async (host, addresses) => {
    expect(await resolve(host)).toEqual(addresses)
  })

  test.each(['broken.example', 'silent.example'])(
    '%s could not be resolved, which is not reported as missing',
    async (host) => {
      await expect(impatientResolve(host)).rejects.toThrow('no name server answered')
    },
  )
})

describe('resolved addresses', () => {
  const judged = (host: string) =>
    resolveTarget({ host, port: 443, isLiteral: false }, resolve, isRemotePublicAddress)

  test('are returned when all are public', async () => {
    expect(await judged('both.example')).toMatchObject({ ok: true, value: { length: 3 } })
  })

  test.each(['rebinding.example', 'sneaky.example'])(
    '%s has one that is not: none is tried',
    async (host) => {
      expect(await judged(host)).toMatchObject({ ok: false, refusal: { kind: 'forbidden' } })
    },
  )

  test.each([
    ['unknown.example', /no such host/],
    ['broken.example', /could not be resolved/],
  ])('%s has none: it is unavailable, and the refusal matches %s', async (host, words) => {
    expect(await judged(host)).toEqual({
      ok: false,
      refusal: { kind: 'unavailable', message: expect.stringMatching(words) },
    })
  })

  test('a literal address is not resolved, but checked too', async () => {
    const nobody = async () => Promise.reject(new Error('asked'))
    const literal = (host: string) =>
      resolveTarget({ host, port: 443, isLiteral: true }, nobody, isRemotePublicAddress)
    expect(await literal('93.184.216.34')).toEqual({ ok: true, value: ['93.184.216.34'] })
    expect(await literal('127.0.0.1')).toMatchObject({ ok: false, refusal: { kind: 'forbidden' } })
  })
})

// ---- a minimal name server --------------------------------------------------------------------------------------------

function replyTo(question: Buffer): Buffer | undefined {
  const labels: string[] = []
  let at = 12
  for (let length = question[at] ?? 0; length > 0; length = question[at] ?? 0) {
    labels.push(question.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const type = question.readUInt16BE(at + 1)
  const [a, aaaa]: readonly [ServerAnswer, ServerAnswer] = ZONE[labels.join('.')] ?? [
    'no such name',
    'no such name',
  ]
  const answered = type === TYPE_A ? a : aaaa
  if (answered === 'silence') return undefined
  const found = typeof answered === 'string' ? [] : answered
  const head = Buffer.alloc(12)
  question.copy(head, 0, 0, 2)
  const code = answered === 'broken' ? BROKEN : answered === 'no such name' ? NO_SUCH_NAME : 0
  head.writeUInt16BE(0x8180 | code, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(found.length, 6)
  return Buffer.concat([
    head,
    question.subarray(12, at + 5),
    ...found.map((address) => recordOf(type, address)),
  ])
}

function recordOf(type: number, address: string): Buffer {
  const data =
    type === TYPE_A
      ? Buffer.from(address.split('.').map(Number))
      : Buffer.concat(
          address.split(':').map((group) => {
            const bytes = Buffer.alloc(2)
            bytes.writeUInt16BE(Number.parseInt(group, 16))
            return bytes
          }),
        )
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0) // the name of the question
  head.writeUInt16BE(type, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, data])
}

/** Tests of the name in a TLS hello: those of real clients, cut and bent ones, and one with an encrypted inner hello. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { connect } from 'node:tls'
import { beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  CLIENT_HELLO_BYTES_MAX,
  readClientHello,
} from '../../../../worker/sandbox/egress/forward-after-hello.ts'

/** Returns the first message of Node's own client. */
async function helloOf(servername?: string): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = connect({ port, host: '127.0.0.1', ...(servername === undefined ? {} : { servername }) })
  client.on('error', () => {})
  const [socket] = await once(server, 'connection')
  const [bytes] = await once(socket, 'data')
  client.destroy()
  socket.destroy()
  server.close()
  return bytes
}

let real: Buffer
beforeAll(async () => {
  real = await helloOf('registry.example.org')
})

const u16 = (value: number): Buffer => Buffer.from([value >> 8, value & 255])
const listed = (bytes: Buffer): Buffer => Buffer.concat([u16(bytes.length), bytes])
const extension = (type: number, content: Buffer): Buffer => Buffer.concat([u16(type), listed(content)])
const named = (name: string): Buffer =>
  extension(0, listed(Buffer.concat([Buffer.from([0]), listed(Buffer.from(name))])))
const ECH = 0xfe0d

function message(...extensions: Buffer[]): Buffer {
  const body = Buffer.concat([
    Buffer.from([3, 3]),
    Buffer.alloc(32),
    Buffer.from([0]),
    listed(Buffer.from([0x13, 1])),
    Buffer.from([1, 0]),
    listed(Buffer.concat(extensions)),
  ])
  return Buffer.concat([Buffer.from([1, 0]), u16(body.length), body])
}
const record = (bytes: Buffer): Buffer => Buffer.concat([Buffer.from([22, 3, 1]), listed(bytes)])

describe('the name of a hello', () => {
  test('of a real client is found, once the message is whole', async () => {
    expect(readClientHello(real)).toEqual({ is: 'hello', name: 'registry.example.org' })
    for (let length = 0; length < real.length; length++)
      expect(readClientHello(real.subarray(0, length))).toEqual({ is: 'unfinished' })
    expect(readClientHello(await helloOf())).toEqual({ is: 'hello' })
  })

  test('is found in records of any size', () => {
    const whole = message(named('A.example.org'))
    for (const size of [1, 7, 100]) {
      const records: Buffer[] = []
      for (let at = 0; at < whole.length; at += size) records.push(record(whole.subarray(at, at + size)))
      expect(readClientHello(Buffer.concat(records))).toEqual({ is: 'hello', name: 'a.example.org' })
    }
  })

  test('is the outer one beside an encrypted inner hello', () => {
    const hello = record(message(extension(ECH, Buffer.alloc(200)), named('outer.example.org')))
    expect(readClientHello(hello)).toEqual({ is: 'hello', name: 'outer.example.org' })
  })

  test.each<[string, () => Buffer]>([
    ['HTTP', () => Buffer.from('GET / HTTP/1.1\r\n')],
    ['an old hello', () => Buffer.from([0x80, 0x2e, 1, 3, 1])],
    ['an alert', () => Buffer.from([21, 3, 1, 0, 2])],
    ['another message', () => record(Buffer.from([2, 0, 0, 0]))],
    [
      'an empty record',
      () => Buffer.concat([record(Buffer.alloc(0)), record(message(named('a.example.org')))]),
    ],
    ['two names', () => record(message(named('a.example.org'), named('b.example.org')))],
    ['an unknown kind of name', () => record(message(extension(0, listed(Buffer.from([7, 0, 1, 65])))))],
    ['a list that is too long', () => record(message(extension(0, Buffer.from([0, 9, 0, 0, 1, 65]))))],
    ['a message without end', () => record(Buffer.from([1, 255, 255, 255]))],
  ])('is not looked for in %s', (_what, bytes) => {
    expect(readClientHello(bytes())).toEqual({ is: 'no TLS' })
  })

  test('never throws', () => {
    const bent = fc.tuple(fc.nat(), fc.nat(255)).map(([at, byte]) => {
      const bytes = Buffer.from(real)
      bytes[at % bytes.length] = byte
      return bytes
    })
    const records = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from([22, 3, 1, ...bytes]))
    fc.assert(fc.property(fc.oneof(bent, records), (bytes) => void readClientHello(bytes)))
    expect(CLIENT_HELLO_BYTES_MAX).toBeGreaterThan(real.length)
  })
})

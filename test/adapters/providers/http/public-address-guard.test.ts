/** Requests for public services whose names lead to private addresses. */
import { createServer } from 'node:http'
import type { AddressInfo, LookupFunction } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { realClock, realRandom } from '../../../../bin/process/clock.ts'
import { HttpClientPool } from '../../../../providers/http/client-pool.ts'
import { createHttp } from '../../../../providers/http/http.ts'
import { publicOnlyLookup } from '../../../../providers/http/public-addresses.ts'
import { createRecordingLog } from '../../../support/recording-log.ts'
import { configWith, createTestAccounts, refusedAs } from '../accounts/accounts-fixture.ts'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const close of open.splice(0)) await close()
})

/** A lookup that resolves every name to these addresses. */
const names =
  (...addresses: readonly string[]): LookupFunction =>
  (_host, _options, done) =>
    done(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    )

async function service() {
  let asked = 0
  const server = createServer((_request, reply) => {
    asked += 1
    reply.end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, asked: () => asked }
}

function createTestHttp(lookup: LookupFunction) {
  const http = createHttp({ clock: realClock, random: realRandom, lookup })
  open.unshift(() => http.close())
  return http
}

const GET = { method: 'GET', headers: {}, tries: 1 } as const

test('a name that leads to this machine is refused for publicOnly requests only', async () => {
  const { port, asked } = await service()
  const http = createTestHttp(names('127.0.0.1'))
  const url = `http://helper.example:${port}/`
  expect(await http.send({ ...GET, url, publicOnly: true })).toMatchObject(
    refusedAs('invalid', /private network/),
  )
  expect(asked()).toBe(0)
  expect(await http.send({ ...GET, url })).toMatchObject({ ok: true, value: { status: 200 } })
  const plain = `http://127.0.0.1:${port}/`
  expect(await http.send({ ...GET, url: plain, publicOnly: true })).toMatchObject({ ok: true })
})

test.each([
  '10.1.2.3',
  '172.31.0.1',
  '192.168.0.1',
  '169.254.169.254',
  '0.0.0.0',
  '[fd00::1]',
  '[fe80::1]',
  '[::]',
  '[64:ff9b::a9fe:a9fe]',
  '[64:ff9b:1::8.8.8.8]',
  '[2002:a00:1::1]',
  '[2001:0:4136:e378:8000:63bf:3fff:fdd2]',
  '[::ffff:8.8.8.8]',
  '192.0.0.192',
])('no request for Linear is sent to %s', async (host) => {
  const accounts = createTestAccounts()
  const linear = configWith({
    tracker: { apiUrl: `https://${host}`, apiKey: 'lin_api_x' },
    connect: { trackerClientId: 'own' },
  })
  expect(await accounts.refreshTrackerToken(linear, 'r')).toMatchObject(
    refusedAs('invalid', /private network/),
  )
  expect(await accounts.checkTracker(linear)).toMatchObject(refusedAs('invalid', /private network/))
})

test('the OAuth helper may be on a private network', async () => {
  const { port, asked } = await service()
  const http = createTestHttp(names('127.0.0.1'))
  const pool = new HttpClientPool({ http, clock: realClock, random: realRandom, log: createRecordingLog() })
  open.unshift(() => pool.close())
  const config = configWith({ connect: { apiBase: `http://oauth.corp.example:${port}` } })
  const accounts = createTestAccounts({ http, clients: pool })
  expect(await accounts.refreshTrackerToken(config, 'r')).toMatchObject(
    refusedAs('failed', /returned no token/),
  )
  expect(await accounts.startDevice(config)).toMatchObject(
    refusedAs('failed', /returned no usable device code/),
  )
  expect(asked()).toBe(2)
})

test('a name that cannot be resolved is refused without a crash', async () => {
  // Node calls back with the error alone.
  const nowhere: LookupFunction = (host, _options, done) => {
    const error = Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND' })
    setImmediate(() => Reflect.apply(done, undefined, [error]))
  }
  const asked = await createTestHttp(nowhere).send({
    ...GET,
    url: 'https://helper.example/',
    publicOnly: true,
  })
  expect(asked).toMatchObject(refusedAs('failed', /helper\.example/))
})

describe('a name', () => {
  const found = (addresses: readonly string[], all: boolean) =>
    new Promise<unknown>((resolve) =>
      publicOnlyLookup(names(...addresses))('x.example', { all }, (error, address) =>
        resolve(error?.code ?? address),
      ),
    )

  test.each([
    [['10.0.0.1'], 'PRIVATE_ADDRESS'],
    [['::ffff:10.0.0.1'], 'PRIVATE_ADDRESS'],
    [['::ffff:a9fe:a9fe'], 'PRIVATE_ADDRESS'],
    [['::1'], 'PRIVATE_ADDRESS'],
    [['64:ff9b::10.0.0.1'], 'PRIVATE_ADDRESS'],
    [['2002:7f00:1::'], 'PRIVATE_ADDRESS'],
    [['2a00:1450::5efe:192.168.0.1'], 'PRIVATE_ADDRESS'],
    [['168.63.129.16'], 'PRIVATE_ADDRESS'],
    [['64:ff9b::93.184.215.14'], '64:ff9b::93.184.215.14'],
    [[], 'PRIVATE_ADDRESS'],
    [['10.0.0.1', '93.184.215.14'], '93.184.215.14'],
    [['2606:2800:21f::1'], '2606:2800:21f::1'],
    [['198.18.0.7'], '198.18.0.7'],
  ])('of %j is %s', async (addresses, expected) => {
    expect(await found(addresses, false)).toBe(expected)
    expect(await found(addresses, true)).toEqual(
      expected === 'PRIVATE_ADDRESS' ? expected : [expect.objectContaining({ address: expected })],
    )
  })
})

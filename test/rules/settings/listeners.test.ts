/** Tests of the rules for listeners: which addresses a host opens, and which changes of them it refuses. */
import { describe, expect, test } from '@jest/globals'
import {
  type FleetListenerAddress,
  findAddressFault,
  listenersOf,
  requireOpenListeners,
} from '../../../core/settings/listeners.ts'
import { createConfig } from '../../support/sample-configs.ts'

const tls = { certFile: '/cert.pem', keyFile: '/key.pem' }

describe('addresses', () => {
  const pathOf = (fleet: FleetListenerAddress, management = '127.0.0.1', port = 4400) =>
    findAddressFault({ management: { host: management, port }, fleet })?.path

  test.each(['0.0.0.0', '::', '10.0.0.1', 'example.org', 'name.localhost', '127.1'])(
    'other machines reach %s, so it needs encryption or a word of the operator',
    (host) => {
      expect(pathOf({ host, port: 4401 })).toBe('/fleet/host')
      expect(pathOf({ host, port: 4401, insecure: false })).toBe('/fleet/host')
      expect(pathOf({ host, port: 4401, insecure: true })).toBeUndefined()
      expect(pathOf({ host, port: 4401, tls })).toBeUndefined()
    },
  )

  test.each(['127.0.0.1', '127.8.9.10', 'localhost', 'LOCALHOST', '::1', '[::1]'])(
    'only this machine reaches %s',
    (host) => {
      expect(pathOf({ host, port: 4401 })).toBeUndefined()
    },
  )

  test.each([
    ['127.0.0.1', '127.0.0.1', true],
    ['0.0.0.0', '127.0.0.1', true],
    ['::', '127.0.0.1', true],
    ['[::1]', '::1', true],
    ['localhost', '127.0.0.1', true],
    ['127.0.0.1', 'localhost', true],
    ['127.0.0.2', '127.0.0.1', false],
    ['::1', '127.0.0.1', false],
    ['10.0.0.1', '127.0.0.1', false],
    ['10.0.0.1', 'localhost', false],
  ])('one port for %s and %s is refused: %s', (host, management, isRefused) => {
    const fleet = { host, port: 4400, insecure: true }
    expect(pathOf(fleet, management)).toBe(isRefused ? '/fleet/port' : undefined)
    expect(pathOf(fleet, management, 4402)).toBeUndefined()
    expect(pathOf({ ...fleet, port: 0 }, management, 0)).toBeUndefined()
  })

  test('without fleet.host there is no fleet listener', () => {
    const { effective } = createConfig({ server: { port: 4401 }, fleet: { tls } })
    expect(listenersOf(effective)).toEqual({ management: { host: '127.0.0.1', port: 4401 } })
    expect(findAddressFault(listenersOf(effective))).toBeUndefined()
  })
})

describe('a change', () => {
  const missing = () => 'the files are gone'
  const judge = (before: object, after: object) => {
    const judged = requireOpenListeners(
      createConfig(before).effective,
      createConfig(after).effective,
      missing,
    )
    return judged.ok ? 'fine' : judged.refusal.message
  }

  test('names the setting and the cure', () => {
    const exposed = judge({}, { fleet: { host: '0.0.0.0' } })
    for (const part of [/^\/fleet\/host: /, /set fleet\.tls\.certFile/, /"insecure": true/])
      expect(exposed).toMatch(part)
    expect(judge({}, { fleet: { host: '0.0.0.0', tls } })).toBe('/fleet/tls: the files are gone')
    expect(judge({}, { server: { port: 4401 }, fleet: { host: '127.0.0.1' } })).toMatch(
      /^\/fleet\/port: 4401 is .*server\.port or fleet\.port$/,
    )
  })

  test('that takes the encryption away is refused, and one of a listener that is off is not', () => {
    const secured = { fleet: { host: '0.0.0.0', tls } }
    expect(judge(secured, { fleet: { host: '0.0.0.0' } })).toMatch(/^\/fleet\/host: /)
    expect(judge(secured, { fleet: { tls } })).toBe('fine')
  })

  test('of another setting passes whatever the listeners are, so that a host can still be paused', () => {
    const secured = { fleet: { host: '0.0.0.0', tls } }
    expect(judge(secured, { ...secured, policy: { paused: true } })).toBe('fine')
    const onePort = { server: { port: 4401 }, fleet: { host: '127.0.0.1' } }
    expect(judge(onePort, { ...onePort, policy: { paused: true } })).toBe('fine')
  })
})

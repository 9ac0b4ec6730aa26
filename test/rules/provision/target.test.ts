/** The fields of a provisioning request: what is refused with the field, and what stays as it is. */
import { describe, expect, test } from '@jest/globals'
import {
  chooseFleetAddress,
  provisionCommand,
  readTarget,
  requireReachableFleet,
  targetId,
} from '../../../core/provision/target.ts'
import { configDefaults } from '../../../protocol/config.ts'
import type { ProvisionRequest } from '../../../protocol/provision.ts'

const base: ProvisionRequest = { host: 'forge', user: 'ann' }
const FINGERPRINT = 'SHA256:0123456789abcdefghijABCDEFGHIJ0123456789abc'

describe('a request is refused with its field', () => {
  test.each<[string, Partial<ProvisionRequest>]>([
    ['host', { host: '-oProxyCommand=id' }],
    ['host', { host: 'forge;id' }],
    ['host', { host: 'forge\nid' }],
    ['host', { host: '$(id)' }],
    ['host', { host: 'forge mica' }],
    ['host', { host: 'a'.repeat(254) }],
    ['host', { host: 'ann@forge' }],
    ['user', { user: '-l' }],
    ['user', { user: 'ann;id' }],
    ['user', { user: 'ann\u0000' }],
    ['user', { user: 'ann bo' }],
    ['user', { user: '`id`' }],
    ['identityFile', { identityFile: 'key' }],
    ['identityFile', { identityFile: '-key' }],
    ['identityFile', { identityFile: '/home/ann/k\ney' }],
    ['name', { name: '\u202e' }],
    ['name', { name: 'a\nb' }],
    ['name', { name: '  ' }],
    ['hostKeySha256', { hostKeySha256: 'SHA256:short' }],
    ['hostKeySha256', { hostKeySha256: `${FINGERPRINT};id` }],
  ])('%s', (field, wrong) => {
    const read = readTarget({ ...base, ...wrong })
    expect(read.ok || [read.refusal.kind, read.refusal.message.split(':')[0]]).toEqual([
      'invalid',
      `/${field}`,
    ])
  })
})

test.each<[Partial<ProvisionRequest>, object]>([
  [{}, { host: 'forge', port: 22, user: 'ann', name: 'forge', concurrency: 2 }],
  [{ host: '[2001:db8::7]' }, { host: '2001:db8::7', name: '2001:db8::7' }],
  [{ host: 'forge.example.com', name: ' "$(id)" ' }, { name: '"$(id)"' }],
  [{ identityFile: '/home/ann/my key; $(id)' }, { identityFile: '/home/ann/my key; $(id)' }],
  [{ hostKeySha256: FINGERPRINT.slice(7) }, { hostKeySha256: FINGERPRINT }],
])('%j is accepted', (more, target) => {
  expect(readTarget({ ...base, ...more })).toMatchObject({ ok: true, value: target })
})

test('a provisioning is named after its target', () => {
  expect(targetId({ host: 'forge', port: 22, user: 'ann' })).toBe('ann@forge')
  expect(targetId({ host: '::1', port: 2222, user: 'ann' })).toBe('ann@[::1]:2222')
})

test('the command to repeat quotes every value', () => {
  const target = readTarget({ ...base, port: 2222, identityFile: "/k/it's", name: '$(id)', concurrency: 4 })
  if (!target.ok) throw new Error(target.refusal.message)
  expect(provisionCommand(target.value, FINGERPRINT)).toBe(
    `switchyard workers provision ann@forge --port 2222 --identity-file '/k/it'\\''s' --name '$(id)' --concurrency 4 --host-key-sha256 ${FINGERPRINT}`,
  )
})

describe('the address of the fleet', () => {
  const { fleet } = configDefaults
  const tls = { certFile: 'c', keyFile: 'k' }

  test.each<[string, object, number | undefined, boolean]>([
    ['off', {}, undefined, false],
    ['configured and not open', { host: '192.0.2.1' }, undefined, false],
    ['loopback only', { host: '127.0.0.1' }, 4401, false],
    ['loopback by name', { host: 'localhost', tls }, 4401, false],
    ['loopback behind a public address', { host: '127.0.0.1', publicUrl: 'https://x.example' }, 4401, true],
    ['another machine’s network without a certificate', { host: '192.0.2.1' }, 4401, false],
    ['another machine’s network, as the operator allows', { host: '192.0.2.1', insecure: true }, 4401, true],
    ['another machine’s network with a certificate', { host: '192.0.2.1', tls }, 4401, true],
    ['every address', { host: '0.0.0.0' }, 4401, true],
  ])('%s', (_, more, port, ok) => {
    const result = requireReachableFleet({ ...fleet, ...more }, port)
    expect(result.ok || result.refusal.kind).toBe(ok || 'conflict')
  })

  test('that the host uses from its next start on is not called off', () => {
    const refused = requireReachableFleet({ ...fleet, host: '192.0.2.1', tls }, undefined)
    expect(refused).toMatchObject({
      refusal: { message: expect.stringMatching(/192\.0\.2\.1.*restart the host$/) },
    })
    const loopback = requireReachableFleet({ ...fleet, host: '127.0.0.1' }, undefined)
    expect(loopback).toMatchObject({ refusal: { message: expect.stringContaining('fleet.host ADDRESS') } })
  })

  test.each<[object, string, unknown]>([
    [{ host: '192.0.2.1', tls }, '10.0.0.1', { url: 'https://192.0.2.1:4401', isExposed: false }],
    [{ host: '0.0.0.0', tls }, '10.0.0.1', { url: 'https://10.0.0.1:4401', isExposed: false }],
    [{ host: '::', tls }, '::ffff:10.0.0.1', { url: 'https://10.0.0.1:4401', isExposed: false }],
    [{ host: '[::]', tls }, 'fd00::1', { url: 'https://[fd00::1]:4401', isExposed: false }],
    [{ host: '0.0.0.0' }, '127.0.0.1', { url: 'http://127.0.0.1:4401', isExposed: false }],
    [{ host: '0.0.0.0' }, '10.0.0.1', 'conflict'],
    [{ host: '0.0.0.0', insecure: true }, '10.0.0.1', { url: 'http://10.0.0.1:4401', isExposed: true }],
    [{ host: '0.0.0.0', insecure: true }, '127.0.0.1', { url: 'http://127.0.0.1:4401', isExposed: false }],
    [{ host: '127.0.0.1', publicUrl: 'ws://10.0.0.1:9/' }, '', { url: 'ws://10.0.0.1:9', isExposed: true }],
    [
      { host: '127.0.0.1', publicUrl: 'wss://x.example/y' },
      '',
      { url: 'wss://x.example/y', isExposed: false },
    ],
  ])('%j from %s', (more, localAddress, expected) => {
    const chosen = chooseFleetAddress({ ...fleet, ...more }, 4401, localAddress)
    expect(chosen.ok ? chosen.value : chosen.refusal.kind).toEqual(expected)
  })
})

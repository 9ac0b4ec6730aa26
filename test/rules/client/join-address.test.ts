import { expect, test } from '@jest/globals'
import { joinAddress, joinCommand } from '../../../client/join-address.ts'
import { configDefaults } from '../../../protocol/config.ts'

const HERE = 'http://127.0.0.1:4400'
const tls = { certFile: '/c', keyFile: '/k' }

test.each([
  ['no fleet listener', {}, `${HERE}, here only`],
  ['a listener of this machine', { host: '127.0.0.1' }, 'http://127.0.0.1:4401, here only'],
  ['a listener with a certificate', { host: 'forge.example', tls }, 'https://forge.example:4401'],
  ['a listener without one', { host: '192.0.2.7' }, 'http://192.0.2.7:4401, exposed'],
  ['an address of IPv6', { host: '2001:db8::1', tls }, 'https://[2001:db8::1]:4401'],
  ['all addresses', { host: '0.0.0.0', tls }, 'https://ADDRESS:4401'],
  ['all addresses of IPv6', { host: '::', tls }, 'https://ADDRESS:4401'],
  ['a public address', { host: '0.0.0.0', publicUrl: 'wss://a.example/yard/' }, 'wss://a.example/yard'],
])('%s', (_what, fleet, expected) => {
  const { url, isExposed, isHereOnly } = joinAddress({ ...configDefaults.fleet, ...fleet }, HERE)
  expect([url, ...(isExposed ? ['exposed'] : []), ...(isHereOnly ? ['here only'] : [])].join(', ')).toBe(
    expected,
  )
})

test.each([
  ['within the machine', {}, true],
  ['within the machine, at the fleet listener', { host: '127.0.0.1' }, true],
  ['with a certificate', { host: '127.0.0.1', tls }, false],
  ['from another machine', { host: '192.0.2.7' }, false],
])(
  'a line %s names the user of the host where only the user proves whose program answers',
  (_, fleet, isNamed) => {
    const marks = { hostUser: 'ada' }
    const { line } = joinCommand({ ...configDefaults.fleet, ...fleet }, HERE, '--token-file', marks)
    expect(line.endsWith(' --host-user ada')).toBe(isNamed)
  },
)

test('a changed port is named with the restart that it waits for', () => {
  const notesWith = (serverPort: number) =>
    joinCommand(configDefaults.fleet, HERE, '--token-file', { serverPort }).notes.join('\n')
  expect(notesWith(4466)).toMatch(/restart of the host is due: .* 4466 from its next start/)
  expect(notesWith(0)).not.toMatch(/restart of the host is due/)
  expect(notesWith(Number(new URL(HERE).port))).not.toMatch(/restart of the host is due/)
})

test.each([
  ['another port', 4401, /listens on port 4401, and on 4409 from its next start/],
  ['an address for the first time', 0, /listens for this machine only, and on 4409 from its next start/],
])('%s of the fleet is named with the restart that it waits for', (_what, fleetPort, expected) => {
  const fleet = { ...configDefaults.fleet, host: '0.0.0.0', port: 4409, tls }
  const notesWith = (port: number | undefined) =>
    joinCommand(fleet, HERE, '--token-file', { fleetPort: port }).notes.join('\n')
  expect(notesWith(fleetPort)).toMatch(expected)
  expect(notesWith(4409)).toBe('')
  expect(notesWith(undefined)).toBe('')
})

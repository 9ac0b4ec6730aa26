/** The words with which the egress proxy refuses a target: what is wrong with it, and the cure. */
import { describe, expect, test } from '@jest/globals'
import type { Result } from '../../../core/result.ts'
import { resolveTarget } from '../../../worker/sandbox/egress/connect.ts'
import { buildRefusal } from '../../../worker/sandbox/egress/egress-proxy.ts'
import { makeNetworkPolicy, parseTarget } from '../../../worker/sandbox/egress/policy.ts'

const messageOf = (answer: Result<unknown>) => (answer.ok ? 'allowed' : answer.refusal.message)

test.each([
  ['Example.org:443', 'the target is not a plain host:port in lower case; write it like example.org:443'],
  ['[::z]:443', 'the target is not a plain host:port in lower case; write it like example.org:443'],
  ['[1::2::3]:443', 'the target is not an address and a port; write it like [2620:fe::fe]:443'],
])('the target %s: %s', (authority, words) => {
  expect(messageOf(parseTarget(authority))).toBe(words)
})

test.each([
  ['example.org', 443, 'the target is not in sandbox.allowedHosts; add "example.org" there to allow it'],
  ['example.org', 22, 'the target is not in sandbox.allowedHosts; add "example.org:22" there to allow it'],
  ['127.0.0.1', 443, 'sandbox.allowedHosts cannot allow this address; connect to a host by its name'],
])('%s, port %d, which is not listed: %s', (host, port, words) => {
  const policy = makeNetworkPolicy({ network: 'allowlist', allowedHosts: [] })
  expect(messageOf(policy.checkTarget({ host, port, isLiteral: /^[\d.]+$/.test(host) }))).toBe(words)
})

test.each([
  ['a b', 'it is not a host name with a port or none'],
  ['intranet', 'it is not a full host name, such as example.org'],
  ['10.0.0.1', 'sandboxes reach public addresses only'],
])('the entry %j: %s', (entry, reason) => {
  const { uselessEntries } = makeNetworkPolicy({ network: 'allowlist', allowedHosts: [entry] })
  expect(uselessEntries).toEqual([
    `sandbox.allowedHosts has ${JSON.stringify(entry)}, which allows nothing: ${reason}`,
  ])
})

describe('a name', () => {
  test.each<[string, () => Promise<string[]>, string]>([
    [
      'that no name server answered',
      async () => Promise.reject(new Error('timeout')),
      'the name could not be resolved; try again later',
    ],
    ['without an address', async () => [], 'no such host'],
    [
      'with a private address',
      async () => ['10.0.0.1'],
      'the host is not at a public address; no setting lets sandboxes reach others',
    ],
  ])('%s', async (_, resolve, words) => {
    const target = { host: 'example.org', port: 443, isLiteral: false }
    expect(messageOf(await resolveTarget(target, resolve, () => false))).toBe(words)
  })
})

test('the body of a refusal names the target and the reason', () => {
  expect(buildRefusal('403 Forbidden', 'example.org:443', 'no such host').split('\r\n\r\n')[1]).toBe(
    'switchyard: cannot connect to example.org:443: no such host\n',
  )
})

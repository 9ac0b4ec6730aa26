/** Tests of a worker's decision after a rejected registration, case by case. */
import { expect, test } from '@jest/globals'
import { judgeRejection, type RejectionFacts } from '../../../core/daemon/rejection.ts'
import { type RejectionCode, readWorkerFrame } from '../../../protocol/frames.ts'

const fresh: RejectionFacts = {
  withToken: false,
  withJoinKey: false,
  inFirstForm: false,
  hasJoinKey: false,
  hasCredential: true,
  registered: false,
  everRegistered: false,
  afterMs: 20,
  abandonedConnection: false,
  ownInstallation: undefined,
  rejectedBy: undefined,
}

test.each<readonly [what: string, code: RejectionCode, facts: Partial<RejectionFacts>, then: string]>([
  ['a bad token, with a credential beside it', 'invalid-token', { withToken: true }, 'retry'],
  ['an old token, with a credential beside it', 'expired-token', { withToken: true }, 'retry'],
  [
    'a bad token and nothing else',
    'invalid-token',
    { withToken: true, hasCredential: false },
    'end: no-credential',
  ],
  [
    'a bad token, with a join key beside it',
    'invalid-token',
    { withToken: true, hasCredential: false, hasJoinKey: true },
    'retry',
  ],
  [
    'a bad join key',
    'invalid-token',
    { withJoinKey: true, hasCredential: false, hasJoinKey: true },
    'end: no-credential',
  ],
  ['an enrollment that does not exist any more', 'unauthorized', {}, 'end: unauthorized'],
  [
    'an enrollment that does not exist any more, with a join key',
    'unauthorized',
    { hasJoinKey: true },
    'join-again',
  ],
  [
    'the host of another installation, with a join key',
    'unauthorized',
    { hasJoinKey: true, ownInstallation: 'in-1', rejectedBy: 'in-2' },
    'foreign-host',
  ],
  [
    'an enrollment that does not exist any more, reported on a registered connection',
    'unauthorized',
    { registered: true },
    'end: unauthorized',
  ],
  [
    'an enrollment that is gone at the own installation',
    'unauthorized',
    { ownInstallation: 'in-1', rejectedBy: 'in-1' },
    'end: unauthorized',
  ],
  [
    'an installation that has never named itself to this worker',
    'unauthorized',
    { rejectedBy: 'in-1' },
    'end: unauthorized',
  ],
  [
    'the host of another installation',
    'unauthorized',
    { ownInstallation: 'in-1', rejectedBy: 'in-2' },
    'foreign-host',
  ],
  ['an older host, which names no installation', 'unauthorized', { ownInstallation: 'in-1' }, 'foreign-host'],
  ['another version', 'protocol', {}, 'end: protocol'],
  ['a host that was updated meanwhile', 'protocol', { everRegistered: true }, 'end: protocol'],
  [
    'a newer connection of another daemon',
    'protocol',
    { registered: true, everRegistered: true },
    'end: replaced',
  ],
  [
    'a newer connection that may be its own',
    'protocol',
    { registered: true, everRegistered: true, abandonedConnection: true },
    'retry',
  ],
  ['a first frame that the host cannot read', 'malformed', {}, 'first-form'],
  ['the same of a worker that was registered before', 'malformed', { everRegistered: true }, 'first-form'],
  ['a first frame in the first form', 'malformed', { inFirstForm: true }, 'end: malformed'],
  [
    'a join key, which the first form lacks',
    'malformed',
    { withJoinKey: true, hasCredential: false, hasJoinKey: true },
    'end: malformed',
  ],
  ['a first frame that arrived too late', 'malformed', { afterMs: 10_000 }, 'retry'],
  [
    'a later frame that the host cannot read',
    'malformed',
    { registered: true, everRegistered: true },
    'retry-rarely',
  ],
  [
    'a first frame that arrived too late, of a worker that was registered before',
    'malformed',
    { everRegistered: true, afterMs: 10_000 },
    'retry',
  ],
  [
    'a later frame that the host cannot read, after a while',
    'malformed',
    { registered: true, everRegistered: true, afterMs: 60_000 },
    'retry-rarely',
  ],
  [
    'the same on the next connection',
    'malformed',
    { everRegistered: true, inFirstForm: true },
    'retry-rarely',
  ],
])('%s', (_what, code, facts, then) => {
  const verdict = judgeRejection(code, 'because', { ...fresh, ...facts })
  expect(verdict.is === 'end' ? `end: ${verdict.end.is}` : verdict.is).toBe(then)
  if (verdict.is === 'end') expect(verdict.end.detail).not.toBe('')
  if (verdict.is === 'foreign-host') expect(verdict.detail).toMatch(/in-1.*--host.*--token-file/)
})

test.each<readonly [code: RejectionCode, facts: Partial<RejectionFacts>, words: string]>([
  [
    'invalid-token',
    { withToken: true, hasCredential: false },
    'the pairing token was refused (because); get a new one from the host (POST /api/workers/pairing-tokens)',
  ],
  ['unauthorized', {}, 'the host does not know this worker any more (because); pair it again'],
  ['protocol', {}, 'the host turned this worker away: because'],
  [
    'protocol',
    { registered: true, everRegistered: true },
    'another worker uses the same credential; give each its own data directory and pair it',
  ],
  [
    'malformed',
    { inFirstForm: true },
    'the host does not understand this worker: because; update the older of the two',
  ],
])('a worker that ends after %s with %j explains the cause and the cure', (code, facts, words) => {
  expect(judgeRejection(code, 'because', { ...fresh, ...facts })).toMatchObject({ end: { detail: words } })
})

test('a line that repeats a registration does not make the host one of an earlier version', () => {
  const register = {
    type: 'register',
    protocolVersion: 1,
    auth: { kind: 'credential', workerId: 'wk-1', secret: 'wc-1' },
    name: 'forge',
    capabilities: { os: 'linux', arch: 'x64', provider: 'bwrap', maxConcurrency: 1, version: '0.1.0' },
    activeLeases: [],
  }
  const repeated = readWorkerFrame(JSON.stringify(register), true)
  const reason = repeated.ok ? '' : repeated.error
  expect(judgeRejection('malformed', reason, fresh)).toEqual({ is: 'retry' })
  expect(judgeRejection('malformed', 'because', fresh)).toEqual({ is: 'first-form' })
})

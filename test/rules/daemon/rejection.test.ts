/** Tests of a worker's decision after a rejected registration, case by case. */
import { expect, test } from '@jest/globals'
import { judgeRejection, type RejectionFacts } from '../../../core/daemon/rejection.ts'
import type { RejectionCode } from '../../../protocol/frames.ts'

const fresh: RejectionFacts = {
  withToken: false,
  hasCredential: true,
  registered: false,
  everRegistered: false,
  afterMs: 20,
  abandonedConnection: false,
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
  ['an enrollment that is gone', 'unauthorized', {}, 'end: unauthorized'],
  [
    'an enrollment that is gone, heard on a line that was welcome',
    'unauthorized',
    { registered: true },
    'end: unauthorized',
  ],
  ['another version', 'protocol', {}, 'end: protocol'],
  ['a host that was updated meanwhile', 'protocol', { everRegistered: true }, 'end: protocol'],
  ['a newer line of somebody else', 'protocol', { registered: true, everRegistered: true }, 'end: replaced'],
  [
    'a newer line that may be its own',
    'protocol',
    { registered: true, everRegistered: true, abandonedConnection: true },
    'retry',
  ],
  ['a first frame that is none', 'malformed', {}, 'end: malformed'],
  ['a first frame that came too late', 'malformed', { afterMs: 10_000 }, 'retry'],
  [
    'a frame that the host takes offence at',
    'malformed',
    { registered: true, everRegistered: true },
    'retry-rarely',
  ],
  ['the same on the next line', 'malformed', { everRegistered: true }, 'retry-rarely'],
])('%s', (_what, code, facts, then) => {
  const verdict = judgeRejection(code, 'because', { ...fresh, ...facts })
  expect(verdict.is === 'end' ? `end: ${verdict.end.is}` : verdict.is).toBe(then)
  if (verdict.is === 'end') expect(verdict.end.detail).not.toBe('')
})

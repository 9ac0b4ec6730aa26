/** Tests of the list of what needs a person. */
import { expect, test } from '@jest/globals'
import {
  collectAttention,
  degradationsOf,
  mayNeedAttention,
  nextAttentionChange,
} from '../../../core/attention/collect-attention.ts'
import type { AttentionFacts } from '../../../core/attention/facts.ts'
import { DAMAGE_CURE } from '../../../core/damage.ts'
import { AttentionResponse } from '../../../protocol/attention.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { ATTENTION_ITEMS_PER_KIND_MAX } from '../../../protocol/limits.ts'
import { createChecker } from '../../../protocol/parse.ts'
import type { Run } from '../../../protocol/run.ts'
import { sampleTicket } from '../tickets/samples.ts'

const NOW = Date.UTC(2026, 10, 22, 14, 32)
const instant = (offsetSeconds: number) => new Date(NOW + offsetSeconds * 1000).toISOString()
const URL = 'https://github.com/acme/api/pull/87'

const endedRun = (more: Partial<Run> = {}): Run => ({
  id: 'run-1',
  ticket: sampleTicket({ identifier: 'ENG-228' }),
  status: 'failed',
  error: 'verify "npm test" exited with 1',
  sandbox: {},
  createdAt: instant(-900),
  finishedAt: instant(-600),
  costs: [],
  ...more,
})
const reviewed = (more: Partial<Run> = {}): Run => {
  const { error: _, ...run } = endedRun({
    status: 'completed',
    prUrl: URL,
    prState: 'open',
    pull: { remote: 'acme/api', number: 87, branch: 'switchyard/eng-228', confirmed: true },
    ...more,
  })
  return more.error === undefined ? run : { ...run, error: more.error }
}

const factsWith = (more: Partial<AttentionFacts> = {}): AttentionFacts => ({
  now: NOW,
  startedAt: NOW - 86_400_000,
  config: { ...configDefaults, repos: { api: { remote: 'Acme/api' } } },
  endedRuns: [],
  activeTickets: new Set(),
  closedTickets: new Set(),
  limits: new Map(),
  conflicts: new Map(),
  verdicts: new Map(),
  credentials: [],
  awayWorkers: [],
  fullWorkers: [],
  unmapped: [],
  damage: [],
  unreadable: [],
  unpublished: [],
  withKeys: [],
  tracker: { state: 'connected' },
  ...more,
})
test('a worker that is gone with finished work is named at once, with the command for what the host has of it', () => {
  const [worker] = away(-2)
  const held = { run: endedRun({ status: 'queued' }), artifacts: ['unpublished.bundle'] }
  const gone = worker === undefined ? [] : [{ ...worker, goneSince: instant(-1), unpublished: [held] }]
  const [item] = collectAttention(factsWith({ awayWorkers: gone })).items
  expect(item).toMatchObject({
    kind: 'worker-away',
    message: expect.stringContaining('finished work of ENG-228 is not published'),
    cure: expect.stringMatching(/^switchyard runs artifacts run-1 unpublished\.bundle .* && git fetch /),
  })
  const unsent = gone.map((each) => ({ ...each, unpublished: [{ ...held, artifacts: [] }] }))
  expect(collectAttention(factsWith({ awayWorkers: unsent })).items[0]?.cure).toBe(
    'switchyard workers show atlas',
  )
  const patient = unsent.map(({ goneSince: _, ...each }) => each)
  expect(collectAttention(factsWith({ awayWorkers: patient })).items).toEqual([])
})

test.each<[string, Partial<Run>, string]>([
  ['whose sandbox is lost', {}, " && git fetch run-1.bundle '+refs/heads/*:refs/heads/kept/*'"],
  [
    'whose work is in its sandbox still',
    { sandbox: { unpublished: true, retainedUntil: instant(3600) } },
    'switchyard logs ENG-228',
  ],
])('a failed run with a bundle %s has the cure %s', (_, more, cure) => {
  const run = endedRun({ result: { artifacts: ['a.txt', 'unpublished-fu-1.bundle'] }, ...more })
  const [item] = collectAttention(factsWith({ endedRuns: [run] })).items
  expect(item?.cure).toContain(cure)
})

const limitOf = (resetsAt?: string) =>
  new Map([
    [
      'run-1',
      {
        runId: 'run-1',
        index: 3,
        at: instant(-600),
        type: 'limit' as const,
        provider: 'agentB',
        message: 'too many requests',
        ...(resetsAt === undefined ? {} : { resetsAt }),
      },
    ],
  ])
const retained = (more: Partial<Run> = {}) =>
  endedRun({ sandbox: { id: 'box', workerId: 'wk-1', retainedUntil: instant(3600) }, ...more })
const away = (lastSeenSeconds: number, neededBy: readonly Run[] = []) => [
  { id: 'wk-1', name: 'atlas', lastSeenAt: instant(lastSeenSeconds), neededBy, unpublished: [] },
]

const check = createChecker(AttentionResponse)

function linesOf(facts: AttentionFacts): string[] {
  const { items } = collectAttention(facts)
  expect(check({ items })).toMatchObject({ ok: true })
  return items.map(({ kind, message, cure }) => `${kind} ${message}${cure === undefined ? '' : ` | ${cure}`}`)
}

test.each<[string, Partial<AttentionFacts>]>([
  ['failed failed: verify "npm test" exited with 1 | switchyard logs ENG-228', { endedRuns: [endedRun()] }],
  [
    'failed the follow-up failed: no answer | switchyard logs ENG-228',
    { endedRuns: [reviewed({ error: 'the follow-up failed: no answer' })] },
  ],
  [
    `limit usage limit of agentB until ${instant(60)} | switchyard retry ENG-228`,
    { endedRuns: [endedRun()], limits: limitOf(instant(60)) },
  ],
  ['limit usage limit of agentB | switchyard retry ENG-228', { endedRuns: [endedRun()], limits: limitOf() }],
  ['review review asked on api#87 | switchyard runs open ENG-228', { endedRuns: [reviewed()] }],
  [
    'review review asked on api#87 | switchyard runs open ENG-228',
    { endedRuns: [reviewed()], closedTickets: new Set(['t-1']) },
  ],
  [
    'review checks red on api#87 | switchyard followup ENG-228',
    { endedRuns: [reviewed()], verdicts: new Map([[URL, 'checks red']]) },
  ],
  [
    'conflict api#87 conflicts with its base branch | switchyard followup ENG-228',
    { endedRuns: [reviewed({ prState: 'draft' })], conflicts: new Map([[URL, instant(-5)]]) },
  ],
  [
    'login credential of agentA is refused | switchyard connect agentA',
    { credentials: [{ reason: 'credential of agentA is refused: make a new key', since: instant(-9) }] },
  ],
  [
    'login linear refuses the credential: 401 | switchyard connect tracker',
    { tracker: { state: 'auth-error', error: '401' }, trackerSince: instant(-9) },
  ],
  [
    'tracker linear: no answer',
    { tracker: { state: 'connected', error: 'no answer' }, trackerSince: instant(-9) },
  ],
  [
    'tracker linear: its token cannot be refreshed',
    { tracker: { state: 'refresh-failing' }, trackerSince: instant(-9) },
  ],
  [
    'worker-away atlas is not connected and holds ENG-t-2 | switchyard workers show atlas',
    {
      awayWorkers: away(-60, [
        endedRun({ status: 'running', ticket: sampleTicket({ id: 't-2', identifier: 'ENG-t-2' }) }),
      ]),
    },
  ],
])('%s', (expected, more) => {
  expect(linesOf(factsWith(more))).toEqual([expected])
})

test.each<[string, Partial<AttentionFacts>]>([
  [
    'a failed run whose pull request is merged',
    { endedRuns: [reviewed({ status: 'failed', error: 'x', prState: 'merged' })] },
  ],
  ['a failed run of a closed ticket', { endedRuns: [endedRun()], closedTickets: new Set(['t-1']) }],
  ['a ticket that runs again', { endedRuns: [reviewed()], activeTickets: new Set(['t-1']) }],
  ['a pull request that is closed', { endedRuns: [reviewed({ prState: 'closed' })] }],
  ['a draft', { endedRuns: [reviewed({ prState: 'draft' })] }],
  [
    'a pull request that is not confirmed',
    { endedRuns: [reviewed({ pull: { remote: 'acme/api', number: 87, branch: 'b', confirmed: false } })] },
  ],
  ['a worker that is away for a moment', { awayWorkers: away(-10, [endedRun()]) }],
  [
    'a worker that has not come back since the host started a moment ago',
    { awayWorkers: away(-3600, [endedRun()]), startedAt: NOW - 10_000 },
  ],
  ['a worker without work that is away', { awayWorkers: away(-3600) }],
  ['a tracker that is not set up', { tracker: { state: 'disconnected' } }],
])('nothing is needed for %s', (_, more) => {
  expect(linesOf(factsWith(more))).toEqual([])
})

test('a worker that is away holds the sandboxes of runs that may be retried', () => {
  const facts = factsWith({ endedRuns: [retained()], awayWorkers: away(-60) })
  expect(linesOf(facts)).toContain(
    'worker-away atlas is not connected and holds ENG-228 | switchyard workers show atlas',
  )
  expect(linesOf({ ...facts, now: NOW + 3_600_000 })).toHaveLength(1)
})

test('an item keeps its id while its trouble lasts', () => {
  const idsOf = (facts: AttentionFacts) => collectAttention(facts).items.map(({ id }) => id)
  const limited = factsWith({ endedRuns: [endedRun()], limits: limitOf(instant(60)) })
  expect(idsOf(limited)).toEqual(['failed:run-1'])
  expect(idsOf({ ...limited, now: NOW + 61_000 })).toEqual(['failed:run-1'])
  const credentials = [2, 9, 5].map((seconds) => ({
    reason: `credential of agentA is refused: attempt ${seconds}`,
    since: instant(-seconds),
  }))
  expect(collectAttention(factsWith({ credentials })).items).toMatchObject([
    { id: 'login:credential of agentA is refused', since: instant(-9) },
  ])
})

test('a full disk and an unreadable repository are named, and callers without a token learn the kind alone', () => {
  const reason = "acme/api can't be read: the code host could not be reached"
  const waiting = [endedRun()]
  const unfollowed = [endedRun({ id: 'run-2', ticket: sampleTicket({ id: 't-2', identifier: 'ENG-2' }) })]
  const unreadable = [
    { reason: `${reason}!`, since: instant(-5), waiting, unfollowed: [] },
    { reason, since: instant(-9), waiting: [], unfollowed },
  ]
  const disk = { reason: 'no space left on the disk of /data/state', since: instant(-3) }
  const { items } = collectAttention(factsWith({ unreadable, disk }))
  expect(items).toEqual([
    {
      id: "codehost:acme/api can't be read",
      kind: 'codehost',
      message: `${reason}; waiting for it: ENG-228; not followed until then: the pull requests of ENG-2`,
      cure: 'switchyard explain ENG-228',
      since: instant(-9),
    },
    { id: 'disk', kind: 'disk', message: expect.stringContaining(disk.reason), since: instant(-3) },
  ])
  const degraded = degradationsOf(items)
  expect(degraded).toHaveLength(2)
  expect(degraded.join()).not.toMatch(/acme|data/)
  expect(degradationsOf([])).toEqual([])
})

test.each([
  ['the code host could not be reached', 'switchyard doctor'],
  ['the code host refused the token; connect the code host again', 'switchyard connect codehost'],
])('what no run waits for has a cure too: %s', (why, cure) => {
  const repository = {
    reason: `acme/api can't be read: ${why}`,
    since: instant(-9),
    waiting: [],
    unfollowed: [],
  }
  const { items } = collectAttention(factsWith({ unreadable: [repository] }))
  expect(items).toMatchObject([{ message: repository.reason, cure }])
})

test('the full disk of a worker is named with its worker, and is none of the host', () => {
  const reason = 'room for 512 MiB, a run needs 1024'
  const fullWorkers = [{ id: 'wk-1', name: 'atlas two', reason, since: instant(-3) }]
  const { items } = collectAttention(factsWith({ fullWorkers }))
  expect(items).toEqual([
    {
      id: 'disk:wk-1',
      kind: 'disk',
      message: `the disk of worker atlas two is full: ${reason}; runs wait until it has room`,
      cure: "switchyard workers enable 'atlas two'",
      since: instant(-3),
    },
  ])
  expect(degradationsOf(items)).toEqual([])
})

test('finished work that can’t be published is one item for each cause, with the cure for all its runs', () => {
  const runs = ['ENG-1', 'ENG-2'].map((identifier, at) =>
    endedRun({ id: `run-${at}`, ticket: sampleTicket({ id: `t-${at}`, identifier }) }),
  )
  const refused = { cause: 'pushing to acme/api: a rule refused the push', runs, since: instant(-9) }
  const credential = { cause: 'credential of github is refused: 401', runs: [endedRun()], since: instant(-5) }
  const { items } = collectAttention(factsWith({ unpublished: [refused, credential] }))
  expect(createChecker(AttentionResponse)({ items })).toMatchObject({ ok: true })
  expect(items).toMatchObject([
    { kind: 'codehost', runId: 'run-1', ticketId: 't-1', cure: 'switchyard connect codehost' },
    {
      id: `publish:${refused.cause}`,
      kind: 'codehost',
      message: `2 runs are done and can’t be published: ${refused.cause}`,
      cure: 'switchyard retry ENG-1 ENG-2',
      runs: ['run-0', 'run-1'],
      since: instant(-9),
    },
  ])
  expect(items[1]).not.toHaveProperty('runId')
})

test('items name the run, the ticket and the pull request', () => {
  expect(collectAttention(factsWith({ endedRuns: [reviewed()] })).items).toEqual([
    {
      id: 'review:run-1',
      kind: 'review',
      message: 'review asked on api#87',
      cure: 'switchyard runs open ENG-228',
      runId: 'run-1',
      ticketId: 't-1',
      pull: { repo: 'api', remote: 'acme/api', number: 87, url: URL },
      since: instant(-600),
    },
  ])
})

test('a damaged record is named with its run and what helps', () => {
  const damage = {
    id: 'run run-1',
    where: 'state/data.mdb',
    message: 'the record is damaged',
    runId: 'run-1',
  }
  expect(collectAttention(factsWith({ damage: [{ damage, since: instant(-60) }] })).items).toEqual([
    {
      id: 'damage:run run-1',
      kind: 'damage',
      message: 'the record is damaged',
      cure: DAMAGE_CURE,
      runId: 'run-1',
      since: instant(-60),
    },
  ])
})

test('each kind has a bounded share, the newest first', () => {
  const many = Array.from({ length: ATTENTION_ITEMS_PER_KIND_MAX + 1 }, (_, at) =>
    endedRun({ id: `run-${at}`, finishedAt: instant(at) }),
  )
  const { items, more } = collectAttention(
    factsWith({
      endedRuns: [...many, reviewed({ id: 'run-r' })],
      tracker: { state: 'connected', error: 'x' },
      trackerSince: instant(0),
    }),
  )
  expect(items.map(({ kind }) => kind)).toEqual([
    ...Array(ATTENTION_ITEMS_PER_KIND_MAX).fill('failed'),
    'review',
    'tracker',
  ])
  expect(more).toBe(1)
  expect(items[0]?.runId).toBe(`run-${ATTENTION_ITEMS_PER_KIND_MAX}`)
})

test('a loss that a person may acknowledge is in front of the many records that it names', () => {
  const damage = (id: string) => ({ id, where: 'state/data.mdb', message: 'lost' })
  const many = Array.from({ length: ATTENTION_ITEMS_PER_KIND_MAX }, (_, at) => ({
    damage: damage(`run run-${at}`),
    since: instant(at),
  }))
  const setAside = { ...damage('set aside state.1.set-aside'), lost: many.map(({ damage: { id } }) => id) }
  const { items, more } = collectAttention(
    factsWith({ damage: [...many, { damage: setAside, since: instant(0) }] }),
  )
  expect(items[0]).toMatchObject({ id: 'damage:set aside state.1.set-aside', mayAcknowledge: true })
  expect(items).toHaveLength(ATTENTION_ITEMS_PER_KIND_MAX)
  expect(more).toBe(1)
})

test('the next change is the end of a limit, of a retention, or of the patience with a worker', () => {
  expect(nextAttentionChange(factsWith())).toBeUndefined()
  const facts = factsWith({ endedRuns: [retained()], limits: limitOf(instant(60)), awayWorkers: away(-10) })
  expect(nextAttentionChange(facts)).toBe(NOW + 35_000)
  expect(nextAttentionChange({ ...facts, awayWorkers: [] })).toBe(NOW + 60_000)
  expect(nextAttentionChange({ ...facts, awayWorkers: [], limits: new Map() })).toBe(NOW + 3_600_000)
})

test('ended runs that never need a person are not kept', () => {
  expect(mayNeedAttention(endedRun({ status: 'cancelled' }))).toBe(false)
  expect(mayNeedAttention(endedRun({ status: 'completed' }))).toBe(false)
  expect(mayNeedAttention(endedRun({ status: 'queued' }))).toBe(false)
})

/** Tests of the gates between a ticket and a worker: each verdict of each gate, and their agreement with placement. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { explainGates, missingRunReason } from '../../../core/explain/explain-gates.ts'
import type { ExplainedRun, ExplainedWorker, ExplainFacts } from '../../../core/explain/facts.ts'
import type { PlacementRequest, WaitReason } from '../../../core/fleet/obstacles.ts'
import { FLEET_REASONS, PAUSED, placeRun } from '../../../core/fleet/placement.ts'
import { NO_ANSWER } from '../../../core/fleet/rejection.ts'
import { type JobNeeds, keyInSandboxCure } from '../../../core/run/job-needs.ts'
import { judgeRepo } from '../../../core/tickets/repo.ts'
import { configDefaults, type ServiceConfig } from '../../../protocol/config.ts'
import { ExplainResponse, GATE_IDS, type Gate, type GateId } from '../../../protocol/explain.ts'
import { createChecker } from '../../../protocol/parse.ts'
import type { Ticket } from '../../../protocol/run.ts'
import { sampleTicket, tracked } from '../tickets/samples.ts'

const NOW = Date.UTC(2026, 10, 22, 14, 32)
const repos = { api: { remote: 'acme/api' } }
const needs: JobNeeds = {
  key: 'a',
  agent: 'agentA',
  subjects: ["acme/api can't be read", 'credential of github is refused', 'credential of agentA is refused'],
}
const having = { agents: { agentA: { found: true } } }
const away = { online: false }
const draining = { state: 'draining' } as const
const held = { hold: 'disk: 200 MB free' }
const refused = { pausedUntil: NOW + 30_000 }
const full = { used: 2 }

const worker = (name: string, more: Partial<ExplainedWorker> = {}): ExplainedWorker => ({
  id: `wk-${name}`,
  name,
  state: 'active',
  online: true,
  max: 2,
  used: 0,
  provider: 'bwrap',
  ...having,
  ...more,
})
const fleet = [worker('atlas'), worker('forge', { used: 1 })]
const ENG = sampleTicket({ identifier: 'ENG-251' })

function factsWith(more: Partial<ExplainFacts> = {}, config: Partial<ServiceConfig> = {}): ExplainFacts {
  const configuration = { ...configDefaults, repos, ...config }
  const ticket = more.ticket ?? ENG
  return {
    now: NOW,
    config: configuration,
    tracker: { state: 'connected', lastPollAt: new Date(NOW - 12_000).toISOString() },
    ticket,
    tracked: tracked(ticket),
    repo: judgeRepo(ticket, configuration.repos),
    blockers: [],
    cycle: [],
    startable: 3,
    request: { runId: 'run-1', needs },
    workers: fleet,
    ...more,
  }
}

const runWith = (more: Partial<ExplainedRun> = {}): ExplainedRun => ({
  isFollowUp: false,
  publishes: false,
  ...more,
})
const lineOf = ({ status, message, cure }: Gate): string =>
  `${status} ${message}${cure === undefined ? '' : ` | ${cure}`}`

function line(id: GateId, facts: ExplainFacts): string {
  const gate = explainGates(facts).find((gate) => gate.id === id)
  return gate === undefined ? 'missing' : lineOf(gate)
}

test('every gate is judged in order, and each passes with its evidence', () => {
  const gates = explainGates(factsWith())
  expect(gates.map(({ id }) => id)).toEqual(GATE_IDS)
  expect(gates.map(lineOf)).toEqual([
    'pass linear, connected',
    'pass 12s ago, every 30s',
    'pass state Todo',
    'pass api (acme/api)',
    'pass none',
    'pass no other active run',
    'pass not paused',
    'pass atlas, forge',
    'pass atlas 0 of 2, forge 1 of 2 slots',
    'pass agentA is logged in on atlas, forge',
    'pass bwrap on atlas, forge',
  ])
})

// ---- the tracker and the ticket ------------------------------------------------------------------------------------

const ago = (seconds: number) => new Date(NOW - seconds * 1000).toISOString()
const driver = (name: 'github' | 'local') => ({ tracker: { ...configDefaults.tracker, driver: name } })

test.each<[string, Partial<ExplainFacts>, Partial<ServiceConfig>?]>([
  ['wait linear, its token is being refreshed: 503', { tracker: { state: 'refresh-failing', error: '503' } }],
  [
    'stop linear refuses the credential: 401 | switchyard connect tracker',
    { tracker: { state: 'auth-error', error: '401' } },
  ],
  ['stop linear, not connected | switchyard connect tracker', { tracker: { state: 'disconnected' } }],
  [
    'stop github, not connected | switchyard connect codehost',
    { tracker: { state: 'disconnected' } },
    driver('github'),
  ],
  [
    'stop local, not connected | switchyard config set tracker.path FOLDER',
    { tracker: { state: 'disconnected' } },
    driver('local'),
  ],
])('tracker: %s', (expected, more, config = {}) => {
  expect(line('tracker', factsWith(more, config))).toBe(expected)
})

test.each<[string, ExplainFacts['tracker']]>([
  ['wait none yet, every 30s', { state: 'connected' }],
  ['wait none yet, every 30s; no answer', { state: 'connected', error: 'no answer' }],
  ['wait 1m01s ago, every 30s; no answer', { state: 'connected', lastPollAt: ago(61), error: 'no answer' }],
  ['pass 4s ago, every 30s', { state: 'connected', lastPollAt: ago(4) }],
  [
    'pass 4s ago, every 30s; ENG-9.md does not parse',
    { state: 'connected', lastPollAt: ago(4), error: 'ENG-9.md does not parse' },
  ],
])('last poll: %s', (expected, tracker) => {
  expect(line('last poll', factsWith({ tracker }))).toBe(expected)
})

const eligible = (more: Partial<ServiceConfig['tracker']['eligible']>) => ({
  tracker: { ...configDefaults.tracker, eligible: { ...configDefaults.tracker.eligible, ...more } },
})
const START = 'switchyard start ENG-t-1'

test.each<[string, Partial<Ticket>, Partial<ServiceConfig>?]>([
  [`stop state Backlog is not in tracker.eligible.states (Todo) | ${START}`, { state: 'Backlog' }],
  [
    `stop none of its labels (ui) is in tracker.eligible.labels (agent) | ${START}`,
    { labels: ['ui'] },
    eligible({ labels: ['agent'] }),
  ],
  [
    `stop project "Doors" is not in tracker.eligible.projects (Lamps) | ${START}`,
    { project: 'Doors' },
    eligible({ projects: ['Lamps'] }),
  ],
  [
    `stop it has no assignee who is in tracker.eligible.assignees (ada) | ${START}`,
    {},
    eligible({ assignees: ['ada'] }),
  ],
])('eligible: %s', (expected, odd, config = {}) => {
  const ticket = sampleTicket(odd)
  expect(line('eligible', factsWith({ ticket }, config))).toBe(expected)
})

test('a ticket that is closed or was not listed is not eligible; a queued run needs neither', () => {
  const ticket = sampleTicket({ state: 'Done' })
  const closed = factsWith({ ticket, tracked: tracked({ state: 'Done' }, true) })
  expect(line('eligible', closed)).toBe(`stop closed, in state Done | ${START}`)
  expect(line('eligible', { ...closed, run: runWith() })).toBe(
    'pass closed, in state Done; its run is queued already',
  )
  const { tracked: _, ...unlisted } = factsWith()
  expect(line('eligible', unlisted)).toBe(
    'stop ENG-251 is not among the tickets that were listed last in linear',
  )
  expect(line('eligible', { ...unlisted, run: runWith({ isFollowUp: true }) })).toBe(
    'pass a follow-up needs no eligible ticket',
  )
})

test.each<[string, Partial<Ticket>, ServiceConfig['repos']]>([
  ['stop repos names none | switchyard config set repos.web.remote OWNER/NAME', {}, {}],
  [
    'stop project "Billing" is in no repos.*.trackerProject | switchyard config set repos.billing.trackerProject Billing',
    { project: 'Billing' },
    { api: { remote: 'acme/api', trackerProject: 'Lamps' } },
  ],
  [
    `stop project "Bob's pay" is in no repos.*.trackerProject | switchyard config set repos.bob-s-pay.trackerProject 'Bob'\\''s pay'`,
    { project: "Bob's pay" },
    { api: { remote: 'acme/api', trackerProject: 'Lamps' } },
  ],
  [
    'stop none of its labels (ui) is in a repos.*.label | switchyard config set repos.ui.label ui',
    { labels: ['ui'] },
    { api: { remote: 'acme/api', label: 'api' } },
  ],
  [
    'stop it has no project and no label, and each repository asks for one',
    {},
    { api: { remote: 'acme/api', label: 'api' } },
  ],
  [
    'stop "doors" is not a key under repos | switchyard config set repos.doors.remote OWNER/NAME',
    { repo: 'doors' },
    repos,
  ],
  [
    'stop 2 repositories fit: api, web | name one of them in the ticket, or tell them apart by repos.*.label',
    {},
    { api: { remote: 'acme/api' }, web: { remote: 'acme/web' } },
  ],
])('repository: %s', (expected, odd, configured) => {
  expect(line('repository', factsWith({ ticket: sampleTicket(odd) }, { repos: configured }))).toBe(expected)
})

const unreadable = {
  reason: "acme/api can't be read: there is no such repository; correct remote or cloneUrl",
}
const tried = { setbacks: new Map([["acme/api can't be read", unreadable]]) }

test.each([
  [
    'it has no branch main; push it, or set defaultBranch to one that is there',
    ' | switchyard config set repos.api.defaultBranch BRANCH',
  ],
  [
    'the code host could not be reached; see that this worker has a way to it',
    ' | when that is mended, at once: switchyard retry ENG-251',
  ],
])('repository: the command is for what the worker says: %s', (cure, command) => {
  const reason = `acme/api can't be read: ${cure}`
  const workers = [worker('atlas', { setbacks: new Map([["acme/api can't be read", { reason }]]) })]
  expect(line('repository', factsWith({ workers, run: runWith() }))).toBe(`stop ${reason}${command}`)
})

test('repository: every worker has tried in vain, or the run waits for its pull request', () => {
  expect(line('repository', factsWith({ workers: [worker('atlas', tried)] }))).toBe(
    `stop ${unreadable.reason} | switchyard config set repos.api.remote OWNER/NAME`,
  )
  expect(line('repository', factsWith({ workers: [worker('atlas', tried), worker('forge')] }))).toBe(
    'pass api (acme/api)',
  )
  const waitsFor: WaitReason = { gate: 'repository', reason: 'its pull request is being read' }
  expect(line('repository', factsWith({ run: runWith({ waitsFor }) }))).toBe(`wait ${waitsFor.reason}`)
  expect(
    line('repository', factsWith({ repo: { is: 'refused', reason: 'acme/old is not under repos' } })),
  ).toBe('stop acme/old is not under repos')
})

test.each<[string, Partial<ExplainFacts>]>([
  [
    'wait ENG-245 is queued | switchyard explain ENG-245',
    { blockers: [{ ticket: sampleTicket({ identifier: 'ENG-245' }), status: 'queued' }] },
  ],
  [
    'wait ENG-245 is in state Backlog, ENG-246 is running | switchyard explain ENG-245',
    {
      blockers: [
        { ticket: sampleTicket({ identifier: 'ENG-245', state: 'Backlog' }) },
        { ticket: sampleTicket({ identifier: 'ENG-246' }), status: 'running' },
      ],
    },
  ],
  [
    'stop ENG-245 is under review, ENG-246 is completed, and in state Todo | switchyard runs open ENG-245',
    {
      blockers: [
        {
          ticket: sampleTicket({ identifier: 'ENG-245' }),
          status: 'completed',
          review: 'switchyard runs open ENG-245',
        },
        { ticket: sampleTicket({ identifier: 'ENG-246' }), status: 'completed' },
      ],
    },
  ],
  [
    'stop ENG-245 is running, ENG-246 failed, ENG-247 was cancelled | switchyard retry ENG-246',
    {
      blockers: [
        { ticket: sampleTicket({ identifier: 'ENG-245' }), status: 'running' },
        { ticket: sampleTicket({ identifier: 'ENG-246' }), status: 'failed' },
        { ticket: sampleTicket({ identifier: 'ENG-247' }), status: 'cancelled' },
      ],
    },
  ],
  [
    "stop each waits for the next: ENG-251, ENG-245, ENG-251 | take one out of another's blockedBy",
    {
      blockers: [{ ticket: sampleTicket({ identifier: 'ENG-245' }), status: 'queued' }],
      cycle: ['ENG-251', 'ENG-245', 'ENG-251'],
    },
  ],
  ['pass a follow-up waits for none', { run: runWith({ isFollowUp: true }) }],
])('blockers: %s', (expected, more) => {
  expect(line('blockers', factsWith(more))).toBe(expected)
})

test.each<[string, Partial<ExplainFacts>]>([
  [
    'wait run-7 is running | switchyard explain run-7',
    { otherRun: { id: 'run-7', status: 'running', isMerged: false } },
  ],
  [
    'stop run-7 is failed, and ENG-251 has not changed its state since | switchyard retry ENG-251',
    { otherRun: { id: 'run-7', status: 'failed', isMerged: false } },
  ],
  [
    'stop run-7 is completed, and ENG-251 has not changed its state since | switchyard start ENG-251',
    { otherRun: { id: 'run-7', status: 'completed', isMerged: false } },
  ],
  [
    'wait its worker opened a pull request',
    { run: runWith({ waitsFor: { gate: 'duplicate', reason: 'its worker opened a pull request' } }) },
  ],
])('duplicate: %s', (expected, more) => {
  expect(line('duplicate', factsWith(more))).toBe(expected)
})

test('policy: a pause needs a person, a full disk does not', () => {
  const paused = { policy: { paused: true } }
  expect(line('policy', factsWith({}, paused))).toBe(
    'stop running work goes on; 3 runs would start | switchyard resume',
  )
  expect(line('policy', factsWith({ startable: 1 }, paused))).toMatch(/; 1 run would start/)
  expect(line('policy', factsWith({ serviceProblem: 'the disk takes no writes: full' }))).toBe(
    'wait the disk takes no writes: full',
  )
})

// ---- the workers ---------------------------------------------------------------------------------------------------

const ADD_WORKER = 'switchyard workers provision USER@HOST'
const lacking = { agents: { agentA: { found: false, problem: 'install it' } } }

describe('workers', () => {
  test.each<[string, ExplainedWorker[]]>([
    [`stop none is enrolled | ${ADD_WORKER}`, []],
    [
      `wait none; not onyx (not connected) | wait, or start onyx again on its machine, or: ${ADD_WORKER}`,
      [worker('onyx', away)],
    ],
    [
      `wait none; not onyx (not connected, last seen 2h00m ago), atlas (not connected) | wait, or start one of onyx, atlas again on its machine, or: ${ADD_WORKER}`,
      [worker('onyx', { ...away, lastSeenAt: NOW - 7_200_000 }), worker('atlas', away)],
    ],
    [
      'stop none; not mica (draining), onyx (not connected) | switchyard workers enable mica',
      [worker('mica', draining), worker('onyx', away)],
    ],
    ['stop claude is not installed on atlas, forge', [worker('atlas', lacking), worker('forge', lacking)]],
    [
      'stop claude is not installed on atlas; not mica (draining)',
      [worker('atlas', lacking), worker('mica', draining)],
    ],
    [
      'pass atlas, forge; not mica (draining), onyx (not connected)',
      [worker('atlas'), worker('forge', full), worker('mica', draining), worker('onyx', away)],
    ],
  ])('%s', (expected, workers) => {
    expect(line('workers', factsWith({ workers }))).toBe(expected)
  })

  test('a memory limit that no worker has', () => {
    const request = { runId: 'run-1', needs: { ...needs, limitsMemory: true as const } }
    const able = { limitsMemory: true }
    const facts = factsWith({ request, workers: [worker('atlas'), worker('onyx', { ...able, ...away })] })
    expect(line('workers', facts)).toBe(
      'stop none; not atlas (no memory limit), onyx (not connected) | switchyard config unset sandbox.memoryMib',
    )
    const withForge = factsWith({ request, workers: [worker('atlas'), worker('forge', able)] })
    expect(line('workers', withForge)).toBe('pass forge; not atlas (no memory limit)')
  })

  test('another worker is no cure for a follow-up that needs a sandbox', () => {
    const request = { runId: 'run-1', requiredWorker: 'wk-forge' }
    const facts = factsWith({ request, workers: [worker('atlas'), worker('forge', away)] })
    expect(line('workers', facts)).toBe(
      'wait none; not forge (not connected) | wait, or start forge again on its machine; which one that is: switchyard workers show forge',
    )
  })
})

const busy = [worker('atlas', full), worker('forge', full)]
const waitsForSlot = { gate: 'capacity', reason: FLEET_REASONS.full } as const

test.each<[string, ExplainedWorker[], Partial<ExplainedRun>?]>([
  [
    `wait atlas 2 of 2, forge 2 of 2 slots; next in line | wait, or: ${ADD_WORKER}`,
    busy,
    { waitsFor: waitsForSlot, ahead: 0 },
  ],
  [
    `wait atlas 2 of 2, forge 2 of 2 slots; 4 runs are before it | wait, or: ${ADD_WORKER}`,
    busy,
    { waitsFor: waitsForSlot, ahead: 4 },
  ],
  [
    `wait atlas 0 of 2 slots; atlas refused a dispatch; asked again at 2026-11-22T14:32:30.000Z | wait, or: ${ADD_WORKER}`,
    [worker('atlas', refused)],
  ],
  [
    `wait atlas 0 of 2 slots; atlas gave no answer to a dispatch; asked again at 2026-11-22T14:32:30.000Z | wait, or start atlas again on its machine, or: ${ADD_WORKER}`,
    [worker('atlas', { ...refused, refusal: NO_ANSWER })],
  ],
  ['pass atlas 2 of 2, forge 0 of 2 slots', [worker('atlas', full), worker('forge')]],
  ['pass no connected worker to ask', [worker('atlas', away)]],
])('capacity: %s', (expected, workers, run = {}) => {
  expect(line('capacity', factsWith({ workers, run: runWith(run) }))).toBe(expected)
})

const refusedKey = {
  setbacks: new Map([
    ['credential of github is refused', { reason: 'credential of github is refused: make a new token' }],
  ]),
}
const keyless = { ...needs, missingCredential: 'credential of agentA is missing: connect agentA' }
const ownCommand: JobNeeds = { key: 'b', subjects: needs.subjects }

test.each<[string, JobNeeds, ExplainedWorker[]]>([
  ['stop credential of agentA is missing | switchyard connect agentA', keyless, fleet],
  ['stop credential of agentA is missing | switchyard connect agentA', keyless, []],
  [
    'stop credential of agentC is refused | switchyard config set agent.keyInSandbox true',
    { ...needs, missingCredential: `credential of agentC is refused: ${keyInSandboxCure('agentC')}` },
    fleet,
  ],
  [
    'stop credential of github is refused | switchyard connect codehost',
    needs,
    [worker('atlas', refusedKey), worker('onyx', away)],
  ],
  ['pass agentA is logged in on atlas, forge', needs, [worker('atlas', refusedKey), worker('forge')]],
  ['pass the command of the configuration brings its own', ownCommand, fleet],
  ['pass agentA is not checked on old', keyless, [worker('old', { agents: undefined })]],
])('credential: %s', (expected, wanted, workers) => {
  expect(line('credential', factsWith({ workers, request: { runId: 'run-1', needs: wanted } }))).toBe(
    expected,
  )
})

test.each<[string, Partial<ExplainFacts>]>([
  [
    'wait atlas is on hold: disk: 200 MB free | switchyard workers enable atlas',
    { workers: [worker('atlas', held)] },
  ],
  [
    'wait worker forge holds the sandbox',
    {
      request: { runId: 'run-1', requiredWorker: 'wk-forge' },
      workers: [worker('atlas'), worker('forge', full)],
      run: runWith({ waitsFor: { gate: 'sandbox', reason: 'worker forge holds the sandbox' } }),
    },
  ],
  ['pass bwrap on forge', { request: { runId: 'run-1', requiredWorker: 'wk-forge' } }],
  ['pass no connected worker to ask', { workers: [] }],
])('sandbox: %s', (expected, more) => {
  expect(line('sandbox', factsWith(more))).toBe(expected)
})

test('a second obstacle is seen at once', () => {
  const blockers = [{ ticket: sampleTicket({ identifier: 'ENG-1' }), status: 'running' as const }]
  const gates = explainGates(factsWith({ blockers, workers: busy }, { policy: { paused: true } }))
  expect(gates.filter(({ status }) => status !== 'pass').map(({ id }) => id)).toEqual([
    'blockers',
    'policy',
    'capacity',
  ])
})

test('a run that was sent to a worker passes the gates of workers', () => {
  const gates = explainGates(factsWith({ workers: busy, run: runWith({ sentTo: worker('atlas') }) }))
  expect(gates.slice(7).map(lineOf)).toEqual(Array(4).fill('pass the run was sent to atlas'))
  expect(gates.every(({ status }) => status === 'pass')).toBe(true)
})

test('a run that was sent to a worker that went before it answered waits for that worker', () => {
  const sentTo = worker('atlas', { ...away, lastSeenAt: NOW - 61_000 })
  const facts = factsWith({ workers: [sentTo], run: runWith({ sentTo }) })
  expect(explainGates(facts).filter(({ status }) => status !== 'pass')).toEqual([
    {
      id: 'workers',
      status: 'wait',
      message: 'the run was sent to atlas, which is not connected, last seen 1m01s ago',
      cure: `wait, or start atlas again on its machine, or: ${ADD_WORKER}`,
    },
  ])
})

// ---- agreement with placement --------------------------------------------------------------------------------------

/** The gate that people connect with a reason, by its words. */
const GATE_OF_REASON: readonly (readonly [RegExp, GateId])[] = [
  [/^paused$/, 'policy'],
  [/^waiting for /, 'blockers'],
  [/^no repository is for |^\d+ repositories fit |can't be read: /, 'repository'],
  [/^no workers connected$|^all workers( that could take it)? are draining$|^no worker has /, 'workers'],
  [/^fleet at capacity$|^all workers( that could take it)? (refused a dispatch|gave no answer)/, 'capacity'],
  [/^credential of /, 'credential'],
  [/holds the sandbox$|^all workers( that could take it)? are on hold(: |$)|^the disk of worker /, 'sandbox'],
]

const anyWorkers: fc.Arbitrary<ExplainedWorker[]> = fc.uniqueArray(
  fc
    .record({
      name: fc.constantFrom('atlas', 'forge', 'mica', 'onyx'),
      state: fc.constantFrom('active' as const, 'draining' as const),
      online: fc.boolean(),
      max: fc.integer({ min: 1, max: 3 }),
      used: fc.integer({ min: 0, max: 4 }),
      odd: fc.subarray([held, refused, lacking, { agents: undefined }, tried, refusedKey]),
    })
    .map(({ name, odd, ...rest }) => worker(name, Object.assign(rest, ...odd))),
  { selector: ({ id }) => id, maxLength: 4 },
)
const anyRequest: fc.Arbitrary<PlacementRequest> = fc.record(
  {
    runId: fc.constant('run-1'),
    requiredWorker: fc.constantFrom('wk-atlas', 'wk-forge'),
    needs: fc.constantFrom(needs, keyless, ownCommand),
  },
  { requiredKeys: ['runId'] },
)
const check = createChecker(ExplainResponse)

test('a run passes every gate exactly when it would be dispatched; otherwise the gate of its reason does not pass', () => {
  fc.assert(
    fc.property(anyRequest, anyWorkers, fc.boolean(), fc.boolean(), (request, workers, paused, blocked) => {
      const reason: WaitReason = { gate: 'blockers', reason: 'waiting for ENG-1' }
      const waitingFor = paused ? PAUSED : blocked ? reason : undefined
      const placed = placeRun(
        { ...request, ...(waitingFor === undefined ? {} : { waitingFor }) },
        workers,
        NOW,
      )
      const gates = explainGates(
        factsWith(
          {
            request,
            workers,
            run: runWith(placed.is === 'waits' ? { waitsFor: placed } : {}),
            ...(blocked ? { blockers: [{ ticket: sampleTicket({ identifier: 'ENG-1' }) }] } : {}),
          },
          { policy: { paused } },
        ),
      )
      expect(check({ gates })).toMatchObject({ ok: true })
      const closed = gates.filter(({ status }) => status !== 'pass').map(({ id }) => id)
      if (placed.is === 'placed') expect(closed).toEqual([])
      else expect(closed).toContain(GATE_OF_REASON.find(([words]) => words.test(placed.reason))?.[1])
    }),
  )
})

describe('a ticket without a run has the words of a queue reason', () => {
  const BILLING = sampleTicket({ identifier: 'ENG-260', project: 'Billing' })
  const mapped = { repos: { api: { remote: 'acme/api', trackerProject: 'API' } } }
  test.each<[string, ExplainFacts, string | undefined]>([
    ['no repository', factsWith({ ticket: BILLING }, mapped), 'no repository is for ENG-260'],
    [
      'two repositories',
      factsWith({}, { repos: { api: { remote: 'acme/api' }, web: { remote: 'acme/web' } } }),
      '2 repositories fit ENG-251: api, web',
    ],
    ['an open blocker', factsWith({ blockers: [{ ticket: BILLING }] }), 'waiting for ENG-260'],
    ['a pause', factsWith({}, { policy: { ...configDefaults.policy, paused: true } }), PAUSED.reason],
    ['a service that starts', factsWith({ serviceProblem: 'starting' }), 'starting'],
    ['a full fleet', factsWith({ workers: [worker('atlas', full)] }), FLEET_REASONS.full],
    ['no worker', factsWith({ workers: [] }), FLEET_REASONS.away],
    [
      'a tracker that is not connected',
      factsWith({ tracker: { state: 'disconnected' } }),
      'linear, not connected',
    ],
    ['nothing', factsWith(), undefined],
  ])('%s', (_, facts, reason) => {
    expect(missingRunReason(facts, explainGates(facts))).toBe(reason)
  })
})

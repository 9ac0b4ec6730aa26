/** The overview's rules: equal failures are one entry, one reason is said once, a track a worker. */
import { describe, expect, jest, test } from '@jest/globals'
import { newestLine } from '../../../client/newest-line.ts'
import { fingerprintOf } from '../../../protocol/fingerprint.ts'
import type { Run, RunEvent } from '../../../protocol/run.ts'
import { attentionEntries } from '../../../web/dashboard/overview/attention-entries.ts'
import { flowTracks } from '../../../web/dashboard/overview/flow.ts'
import { LeavingRuns } from '../../../web/dashboard/overview/leaving.ts'
import { phaseScale } from '../../../web/dashboard/overview/phase-scale.ts'
import { hostWords, ownReason, queueGroups, waitWords } from '../../../web/dashboard/overview/queue-groups.ts'
import { SampleRecords } from '../../support/sample-records.ts'

const NOW = Date.parse('2026-11-20T12:00:00Z')
const sample = new SampleRecords(NOW)
const busy = new Map(sample.busyRuns().map((run) => [run.id, run]))

describe('failures', () => {
  test.each([
    ['npm ci: 403 Forbidden after 12.5 s', 'npm ci: 403 Forbidden after 7 s', true],
    ['cannot read /home/a/b.ts', 'cannot read /srv/c.ts', true],
    ['commit 5be2f01a9 of ENG-12 is gone', 'commit 77ac01ffe of OPS-3 is gone', true],
    ['npm ci failed', 'npm test failed', false],
  ])('%s and %s', (a, b, areEqual) => expect(fingerprintOf(a) === fingerprintOf(b)).toBe(areEqual))

  test('that are equal are one entry, which names the oldest', () => {
    const entries = attentionEntries(sample.attention(), (id) => busy.get(id))
    expect(entries.map(({ kind, items }) => [kind, items.length])).toEqual([
      ['failed', 3],
      ['failed', 1],
      ['review', 1],
      ['login', 1],
    ])
    const [first] = entries
    expect(first?.since).toBe(first?.items.map(({ since }) => since).sort()[0])
  })

  test('name agents, instants and repositories as a person does', () => {
    expect(hostWords(`usage limit of agentA until ${new Date().toISOString()}`)).toMatch(
      /^Usage limit of Claude Code until \d\d:\d\d$/,
    )
    expect(hostWords('agentA and agentB are missing: set agent.commands.agentB')).toBe(
      'Claude Code and Codex are missing: set agent.commands.agentB',
    )
    expect(hostWords("acme/empty can't be read: it has no branch main")).toMatch(/^acme\/empty can't/)
  })

  test('of a run that the page does not know are told by their message', () => {
    const [entry] = attentionEntries([sample.itemOf(5, 'failed', 'failed: no space')], () => undefined)
    expect(entry?.error).toBe('no space')
  })
})

describe('queued runs', () => {
  const queued = (queueReason: string | undefined, priority: 0 | 1 | 4 = 1): Run => {
    const run = sample.run(1, 'queued', queueReason === undefined ? {} : { queueReason })
    return { ...run, ticket: { ...run.ticket, priority } }
  }

  test('for which several repositories fit are one group, and each names its own', () => {
    const both = ['ENG-6', 'ENG-7'].map((name) => queued(`2 repositories fit ${name}: app, empty`))
    const groups = queueGroups(both)
    expect(groups.map(({ fact, runs }) => [fact, runs.length])).toEqual([
      ['Several repositories fit the ticket', 2],
    ])
    expect(both.map(ownReason)).toEqual(both.map(({ queueReason }) => queueReason))
  })

  test('whose repository cannot be read say why', () => {
    const [group] = queueGroups([queued("acme/app can't be read: it has no branch main; push it")])
    expect([group?.fact, group?.explanation]).toEqual([
      "acme/app can't be read",
      'it has no branch main; push it',
    ])
  })

  test('with one reason are one group, the largest first', () => {
    const groups = queueGroups(busy.values())
    expect(groups.map(({ fact, runs }) => [fact, runs.length])).toEqual([
      ['Fleet at capacity', 4],
      ['Worker heron holds the sandbox', 2],
      ['Blocked by another ticket', 1],
      ['The credential of Gemini CLI is missing', 1],
      ['The work is done, and waits to be published', 1],
    ])
    expect(groups[4]?.until).toBe(sample.ago(-130))
  })

  test('a reason that holds for some workers only says so', () => {
    const facts = ['all workers are draining', 'all workers that could take it are on hold'].map(
      (reason) => queueGroups([queued(reason)])[0]?.fact,
    )
    expect(facts).toEqual(['All workers are draining', 'All workers that could take it are on hold'])
  })

  test('for a worker whose disk is full say so', () => {
    const [group] = queueGroups([
      queued('worker heron holds the sandbox, and its disk is full (200 MB free)'),
    ])
    expect(group?.fact).toBe('Worker heron holds the sandbox, and its disk is full')
  })

  test('with a reason that no rule knows have it as it is', () => {
    const [group] = queueGroups([queued('attic is on hold: asked again soon')])
    expect([group?.fact, group?.explanation]).toEqual(['Attic is on hold', 'asked again soon'])
  })

  test('name instants by the clock, and no repository with a large letter', () => {
    const until = new Date().toISOString()
    const [again, closed] = [
      `interrupted: wren was lost; refused a dispatch; asked again at ${until}`,
      `acme/api is closed until ${until}`,
    ].map((reason) => waitWords(queued(reason)))
    expect(again).toMatch(/^Interrupted: wren was lost; refused a dispatch; asked again at \d\d:\d\d$/)
    expect(closed).toMatch(/^acme\/api is closed until \d\d:\d\d$/)
  })

  test('without a reason are next, and one without a priority comes last', () => {
    const [group] = queueGroups([queued(undefined, 0), queued(undefined, 4), queued(undefined, 1)])
    expect(group?.fact).toBe('Next to be dispatched')
    expect(group?.runs.map(({ ticket }) => ticket.priority)).toEqual([1, 4, 0])
  })
})

describe('the flow', () => {
  test('has a track for each worker with its blocks, and its state in words', () => {
    const tracks = flowTracks(sample.workers(), busy.values())
    expect(tracks.map(({ name, state, words }) => [name, state, words])).toEqual([
      ['kestrel-01', 'online', '4 of 4'],
      ['kestrel-02', 'online', '2 of 3'],
      ['heron', 'draining', 'draining, 2 left'],
      ['wren', 'offline', 'offline'],
      ['this machine', 'online', '1 of 1'],
    ])
    expect(tracks.flatMap(({ blocks }) => blocks)).toHaveLength(6)
  })

  test('without a worker has one track, which says so', () => {
    expect(flowTracks([], []).map(({ name, words }) => `${name}: ${words}`)).toEqual([
      'no worker: none is enrolled',
    ])
  })

  test('of many workers has the fullest, and one track for the others', () => {
    const many = Array.from({ length: 20 }, (_, at) => ({
      ...sample.workers()[0],
      id: `wk-${at}`,
      name: `w${at}`,
    }))
    const tracks = flowTracks(many as ReturnType<typeof sample.workers>, [])
    expect([tracks.length, tracks.at(-1)?.name]).toEqual([8, '13 more'])
  })
})

test.each([
  [[], 5],
  [[4.9], 5],
  [[12, 3], 15],
  [[31], 60],
  [[61], 120],
])('%p minutes are drawn on a scale of %p', (ages, minutes) => {
  expect(phaseScale(ages.map((age) => age * 60_000))).toBe(minutes * 60_000)
})

test.each<[object[], string | undefined]>([
  [[{ type: 'log', stream: 'stdout', text: 'a\nb\n\n' }, { type: 'cost' }], 'b'],
  [[{ type: 'log', stream: 'stdout', text: ' 10%\r \u001b[32m90%\u001b[0m\r' }], '90%'],
  [
    [{ type: 'agent', message: { type: 'tool_use', name: 'Bash', input: { command: 'npm test' } } }],
    'Bash npm test',
  ],
  [[{ type: 'status', to: 'running' }], undefined],
])('the newest line of %j', (events, line) => expect(newestLine(events as RunEvent[])).toBe(line))

test('a run that has just ended stays in its place for two seconds', () => {
  jest.useFakeTimers()
  const leaving = new LeavingRuns()
  const update = (...list: readonly Run[]) => leaving.update(new Map(list.map((run) => [run.id, run])))
  try {
    const waiting = sample.run(2, 'queued')
    update(sample.run(1, 'running'), waiting, sample.run(3, 'completed'))
    update(sample.run(1, 'completed'), waiting, sample.run(3, 'completed'))
    expect([...leaving.ids.value]).toEqual([sample.run(1, 'running').id])
    jest.advanceTimersByTime(1_999)
    expect(leaving.ids.value.size).toBe(1)
    jest.advanceTimersByTime(1)
    expect(leaving.ids.value.size).toBe(0)
    // A run that waits again goes to the queue at once.
    update(sample.run(2, 'running'))
    update(sample.run(2, 'queued'))
    expect(leaving.ids.value.size).toBe(0)
    leaving.close()
    expect(jest.getTimerCount()).toBe(0)
  } finally {
    jest.useRealTimers()
  }
})

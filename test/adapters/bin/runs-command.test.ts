/** `switchyard runs show` against a real listener, drawn for a terminal. */
import { expect, test } from '@jest/globals'
import type { CommandContext } from '../../../bin/cli/command/run-command.ts'
import { cancel, release } from '../../../bin/cli/runs/run-actions.ts'
import { artifacts } from '../../../bin/cli/runs/run-files.ts'
import { type ListOptions, list, show } from '../../../bin/cli/runs/runs.ts'
import { wait } from '../../../bin/cli/runs/wait.ts'
import { tickets } from '../../../bin/cli/tickets/tickets.ts'
import { yes } from '../../../core/result.ts'
import type { CostEntry } from '../../../protocol/cost.ts'
import type { Run } from '../../../protocol/run.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { fakeRun, fakeTicket } from '../../support/fake-host-api.ts'

const tokens = { inputTokens: 1_500_000, outputTokens: 29_000, cacheReadTokens: 400_000, cacheWriteTokens: 0 }
const entry: CostEntry = {
  label: 'run',
  provider: 'agentA',
  model: 'sonnet',
  ...tokens,
  costUsd: 1.84,
  estimated: false,
}

async function linesOf(given: Partial<Run>, columns = 80) {
  const { hostApi, print } = await openCommandHost()
  hostApi.runsById.set('run-1', { ...fakeRun('run-1', 'running', 'ENG-231'), ...given })
  const { out, err } = await print((context) => show(context, 'ENG-231'), { columns })
  return { lines: out.trimEnd().split('\n'), err }
}

test('a run of one execution with one model has one line of costs', async () => {
  const { lines } = await linesOf({ costs: [entry], costTotals: { ...entry, byModel: [] } })
  expect(lines.at(-1)).toBe('costs      run   claude  sonnet  1.9M in  29k out  $1.84, reported')
})

test('each model of each execution has a line, and a sum follows', async () => {
  const breakdown = [
    { model: 'haiku', ...tokens, costUsd: 0.25 },
    { model: 'opus', ...tokens, outputTokens: 120 },
  ]
  const { lines } = await linesOf({
    costs: [entry, { ...entry, label: 'follow-up 1', costUsd: 0.25, estimated: true, breakdown }],
    costTotals: { ...tokens, inputTokens: 5_000_000, costUsd: 2.09, estimated: true, byModel: [] },
  })
  expect(lines.slice(-4)).toEqual([
    'costs      run          claude  sonnet  1.9M in  29k out  $1.84, reported',
    '           follow-up 1  claude  haiku   1.9M in  29k out  ~$0.25, estimated',
    '           follow-up 1  claude  opus    1.9M in  120 out  -',
    '           total                        5.4M in  29k out  ~$2.09',
  ])
})

test('made-up figures of the example say so', async () => {
  const { lines } = await linesOf({ costs: [{ ...entry, source: 'example', estimated: true }] })
  expect(lines.at(-1)).toMatch(/~\$1\.84, example$/)
})

test('an active run names its state, its repository and its next command', async () => {
  const { ticket } = fakeRun('run-1', 'running', 'ENG-231')
  const { lines, err } = await linesOf({
    ticket: { ...ticket, title: 'Rate limit login attempts', url: 'https://t.example/ENG-231', priority: 1 },
    startedAt: '2026-03-01T08:35:00.000Z',
    sandbox: { workerName: 'atlas', provider: 'bwrap' },
    agentSessionId: '5b1f6a0e-0000',
    costs: [entry],
  })
  expect(lines.slice(0, 5)).toEqual([
    '▸ ENG-231  Rate limit login attempts                             running for 25m',
    'run        run-1, queued 09:30:00',
    'ticket     https://t.example/ENG-231, urgent',
    'worker     atlas, bwrap, claude, session 5b1f6a0e',
    'costs      run   claude  sonnet  1.9M in  29k out  $1.84, reported',
  ])
  expect(err).toBe('Next: switchyard logs ENG-231 -f\n')
})

test('the branch of a run is named before it has a pull request', async () => {
  const { ticket } = fakeRun('run-1', 'running', 'ENG-231')
  const { lines } = await linesOf({ ticket: { ...ticket, repo: 'api' } })
  expect(lines).toContain('repo       api, branch switchyard/eng-231')
})

test('runs that have ended say how, and their reasons stand in one column', async () => {
  const { hostApi, print } = await openCommandHost()
  const startedAt = '2026-03-01T08:00:00.000Z'
  const url = 'https://github.com/acme/web/pull/92'
  const ended = (id: string, name: string, given: Partial<Run>) =>
    hostApi.runsById.set(id, { ...fakeRun(id, 'completed', name), startedAt, ...given })
  ended('run-1', 'ENG-240', { finishedAt: '2026-03-01T08:05:26.000Z', prUrl: url })
  const error = 'verify "npm test" exited with 1'
  ended('run-2', 'ENG-238', { status: 'failed', finishedAt: '2026-03-01T08:31:12.000Z', error })
  const { code, out } = await print((context) => wait(context, ['ENG-240', 'ENG-238']), { columns: 80 })
  expect(out).toBe(`ENG-240 completed in 5m26s  ${url}\nENG-238 failed in 31m12s    ${error}\n`)
  expect(code).toBe(1)
})

test('a narrow terminal cuts no id, no address and no amount', async () => {
  const id = 'run-01a203abc33070008000000000000002'
  const { hostApi, print } = await openCommandHost()
  const url = 'https://github.com/acme/web/pull/92/a-long-address-of-a-pull-request'
  const error = 'the second verification "npm test" exited with 1 after an hour'
  const ended: Run = {
    ...fakeRun(id, 'failed', 'ENG-1'),
    error,
    prUrl: url,
    prState: 'open',
    costs: [entry],
  }
  hostApi.runsById.set(id, { ...ended, finishedAt: '2026-03-01T08:40:00.000Z' })
  const { out } = await print((context) => show(context, 'ENG-1'), { columns: 50 })
  expect(out).not.toContain('…')
  expect(out.replace(/\n +/g, ' ')).toContain(`pull       ${url}, open`)
  expect(out).toContain(id)
  expect(out).toContain('costs      run   claude  sonnet  $1.84, reported\n')
})

test('the repository of a ticket that names none is that of its pull request', async () => {
  const { hostApi, print } = await openCommandHost()
  const pull = { remote: 'acme/api', number: 1, branch: 'b', confirmed: true }
  hostApi.runsById.set('run-1', { ...fakeRun('run-1', 'completed', 'ENG-1'), pull })
  const { config } = hostApi
  hostApi.config = () => ({ ...config(), repos: { api: { remote: 'acme/api', defaultBranch: 'main' } } })
  const { out } = await print((context) => show(context, 'ENG-1'), { columns: 80 })
  expect(out).toContain('repo       api (acme/api), branch b from main\n')
})

test('cancelling tells apart what has ended and what its worker still ends', async () => {
  const { hostApi, print } = await openCommandHost()
  hostApi.runsById.set('run-1', fakeRun('run-1', 'queued', 'ENG-1'))
  const command = () => print((context) => cancel(context, ['ENG-1']), { columns: 80 })
  expect((await command()).out).toBe('ENG-1 cancelled\n')
  hostApi.cancelRun = async () => yes(fakeRun('run-1', 'running', 'ENG-1'))
  expect((await command()).out).toMatch(/^ENG-1 is being cancelled, running until /)
  hostApi.cancelRun = async () => yes(fakeRun('run-1', 'failed', 'ENG-1'))
  expect((await command()).out).toBe('ENG-1 has ended already: failed\n')
})

test('a ticket of a run is shown as it is now', async () => {
  const { hostApi, print } = await openCommandHost()
  const run = fakeRun('run-1', 'completed', 'ENG-9')
  hostApi.runsById.set('run-1', run)
  hostApi.explainTicket = () => yes({ ticket: { ...run.ticket, state: 'In Review' }, run, gates: [] })
  const { out } = await print((context) => tickets(context, 'ENG-9'), { columns: 80 })
  expect(out.split('\n')[0]).toMatch(/^ENG-9 .* In Review$/)
})

test('runs list --ticket refuses a ticket that nobody knows, and one without runs has none', async () => {
  const { print, hostApi } = await openCommandHost()
  hostApi.tickets = () => [fakeTicket('ENG-7')]
  const listed = (ticket: string) =>
    print((context: CommandContext<ListOptions>) => list(context), { options: { ticket } })
  expect(await listed('ENG-7')).toMatchObject({ code: 0, err: expect.stringMatching(/^No runs\./) })
  await expect(listed('nope')).rejects.toMatchObject({
    code: 1,
    message: 'no ticket is called nope',
    cure: 'switchyard tickets',
  })
})

test.each<[string, Partial<Run>, RegExp]>([
  [
    'a disk that is kept',
    { sandbox: { id: 'sb-1', retainedUntil: '2026-03-01T12:15:00.000Z' } },
    /^ENG-231: released, .*13:15\n$/,
  ],
  [
    'a disk whose time is over',
    { sandbox: { id: 'sb-1', retainedUntil: '2026-03-01T08:15:00.000Z' } },
    /^ENG-231: nothing was booted\n$/,
  ],
  ['no disk', { sandbox: {} }, /^ENG-231: nothing was booted\n$/],
  [
    'a disk that is kept, which was queued again',
    { status: 'queued', sandbox: { id: 'sb-1', retainedUntil: '2026-03-01T12:15:00.000Z' } },
    /^ENG-231: nothing was booted\n$/,
  ],
])('runs release of a failed run with %s does not look like a failure', async (_, more, outcome) => {
  const { print, hostApi } = await openCommandHost()
  const run = { ...fakeRun('run-1', 'failed', 'ENG-231'), ...more }
  hostApi.runsById.set('run-1', run)
  hostApi.answers.set('releaseRun', yes(run))
  const { code, out } = await print((context) => release(context, ['ENG-231']))
  expect([code, out]).toEqual([0, expect.stringMatching(outcome)])
})

test('the artifacts of a run whose work waits to be published are those of its log', async () => {
  const { hostApi, print } = await openCommandHost()
  const sandbox = { provider: 'bwrap', unpublished: true } as const
  hostApi.runsById.set('run-1', { ...fakeRun('run-1', 'queued', 'ENG-231'), sandbox })
  const reported = { runId: 'run-1', index: 0, at: '2026-03-01T08:30:00.000Z' }
  const artifact = { type: 'artifact', name: 'unpublished.bundle', size: 1, contentType: 'x/y' } as const
  hostApi.eventsById.set('run-1', [{ ...reported, ...artifact }])
  const { out } = await print((context) => artifacts(context, 'ENG-231', undefined))
  expect(out).toContain('unpublished.bundle')
})

test.each([
  ['is lost', { provider: 'bwrap' }, /^Next: switchyard runs artifacts run-1 unpublished\.bundle .* && git /],
  ['holds the work', { id: 'sb-1', unpublished: true }, /^Next: switchyard retry ENG-231\n/],
] as const)(
  'a failed run with a bundle whose sandbox %s names what brings its work back',
  async (_, sandbox, next) => {
    const { hostApi, print } = await openCommandHost()
    const result = { artifacts: ['unpublished.bundle'] }
    const run = {
      ...fakeRun('run-1', 'failed', 'ENG-231'),
      sandbox,
      result,
      error: 'a rule refused the push',
    }
    hostApi.runsById.set('run-1', run)
    const { err } = await print((context) => show(context, 'ENG-231'))
    expect(err).toMatch(next)
  },
)

test('a ticket is listed with its run, however many newer runs others have', async () => {
  const { print, hostApi } = await openCommandHost()
  hostApi.runsById.set('run-0', fakeRun('run-0', 'failed', 'ENG-8'))
  for (let at = 1_000; at < 1_300; at++)
    hostApi.runsById.set(`run-${at}`, fakeRun(`run-${at}`, 'completed', 'ENG-9'))
  hostApi.tickets = () => [fakeTicket('ENG-8')]
  const { out } = await print((context) => tickets(context))
  expect(out.split('\n')[1]?.split('\t')[3]).toBe('failed')
})

test('without an eligible ticket a person is told when the tracker was asked, and will be', async () => {
  const { print, hostApi } = await openCommandHost()
  hostApi.tickets = () => []
  const words = async () => (await print((context) => tickets(context))).err
  expect(await words()).toMatch(/ now\. Next: switchyard status\n$/)
  const connected = { state: 'connected', lastPollAt: '2026-03-01T08:59:40.000Z' } as const
  hostApi.trackerStatus = () => ({ ...connected, nextPollAt: '2026-03-01T09:00:10.000Z' })
  expect(await words()).toMatch(/ 20s ago, .* in 10s\. Next: switchyard status\n$/)
  hostApi.trackerStatus = () => connected
  expect(await words()).toMatch(/ 20s ago\. Next: /)
})

test('tickets are listed with their newest run, those without one first', async () => {
  const { print, hostApi } = await openCommandHost()
  const result = { artifacts: [], summary: 'nothing to do' }
  const done = { ...fakeRun('run-1', 'completed', 'ENG-8'), ticket: fakeTicket('ENG-8'), result }
  hostApi.runsById.set('run-1', done)
  hostApi.tickets = () => [fakeTicket('ENG-8'), fakeTicket('ENG-7')]
  const { out } = await print((context) => tickets(context))
  const rows = out.split('\n').map((line) => line.split('\t'))
  expect(rows.map((row) => [row[0], row[3]])).toEqual([
    ['TICKET', 'RUN'],
    ['ENG-7', '-'],
    ['ENG-8', 'changed nothing'],
    ['', undefined],
  ])
})

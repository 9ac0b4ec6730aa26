/** Tests of the run's record after each change. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  acceptRun,
  cancelRun,
  completeWithPull,
  failRun,
  finishRun,
  isActive,
  isTerminal,
  markSandboxDiscarded,
  newRun,
  patchRun,
  queueFollowUp,
  queueRetry,
  requeueRun,
  revertFollowUp,
} from '../../../core/run/run-transitions.ts'
import { DEFAULT_SANDBOX_PROVIDER } from '../../../protocol/config.ts'
import type { RunOutcome, RunPatch } from '../../../protocol/frames.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { RUN_STATUSES, Run, type RunPull } from '../../../protocol/run.ts'
import { aCost, anyCost, aRun, aTicket, dense, T0, T1 } from './runs.ts'

const by = { workerId: 'wk-1', costsBefore: 0, label: 'run' }
const end = { ...by, now: T1, retentionHours: 24 }
const url = 'https://code.example/1'
const otherUrl = 'https://code.example/2'
const pull: RunPull = { remote: 'owner/name', number: 1, branch: 'ada/eng-12', confirmed: false }

test('every status is queued, active or terminal', () => {
  expect(RUN_STATUSES.filter(isActive)).toEqual(['preparing', 'running', 'finalizing'])
  expect(RUN_STATUSES.filter(isTerminal)).toEqual(['completed', 'failed', 'cancelled'])
})

test('a new run is queued, and has the sandbox provider of the configuration', () => {
  expect(newRun('run-1', aTicket, DEFAULT_SANDBOX_PROVIDER, T0)).toEqual(
    aRun({ sandbox: { provider: DEFAULT_SANDBOX_PROVIDER } }),
  )
})

describe('accepted', () => {
  test('preparing; startedAt set, queueReason cleared', () => {
    const run = acceptRun(aRun({ queueReason: 'fleet at capacity' }), { workerId: 'wk-1', now: T1 })
    expect(run).toEqual(
      aRun({ status: 'preparing', startedAt: T1, sandbox: { provider: 'bwrap', workerId: 'wk-1' } }),
    )
  })

  const kept = { provider: 'own', id: 'sb-1', retainedUntil: T1, workerId: 'wk-1', workerName: 'box' }
  test('the worker that holds the sandbox uses it again', () => {
    const run = acceptRun(aRun({ sandbox: kept, agentSessionId: 's' }), { workerId: 'wk-1', now: T1 })
    expect(run).toMatchObject({ sandbox: kept, agentSessionId: 's' })
  })

  test('sandbox and session of another worker are dropped', () => {
    const run = acceptRun(aRun({ sandbox: kept, agentSessionId: 's' }), { workerId: 'wk-2', now: T1 })
    expect(run.sandbox).toEqual({ provider: 'own', workerId: 'wk-2' })
    expect(run).not.toHaveProperty('agentSessionId')
  })

  test('the run keeps the name that the worker had, whatever the worker reports', () => {
    const accepted = acceptRun(aRun(), { workerId: 'wk-1', workerName: 'box', now: T1 })
    const patched = patchRun(accepted, { status: 'running', sandbox: { id: 'sb-1' } }, by)
    expect(finishRun(patched, { status: 'completed', costs: [] }, end).sandbox).toMatchObject({
      id: 'sb-1',
      workerName: 'box',
    })
  })
})

describe('patched', () => {
  const running = aRun({ status: 'running', sandbox: { provider: 'bwrap', workerId: 'wk-1' } })

  test('a status only moves forward, and never out of the queue or an end', () => {
    const moves = RUN_STATUSES.map((status) =>
      (['preparing', 'running', 'finalizing'] as const).map(
        (to) => patchRun(aRun({ status }), { status: to }, by).status,
      ),
    )
    expect(moves).toEqual([
      ['queued', 'queued', 'queued'],
      ['preparing', 'running', 'finalizing'],
      ['running', 'running', 'finalizing'],
      ['finalizing', 'finalizing', 'finalizing'],
      ['completed', 'completed', 'completed'],
      ['failed', 'failed', 'failed'],
      ['cancelled', 'cancelled', 'cancelled'],
    ])
  })

  test('the host sets the worker, and a patch cannot set the retention', () => {
    const sandbox = { id: 'sb-1', workerId: 'wk-666', retainedUntil: '2999-01-01T00:00:00.000Z' }
    expect(patchRun(running, { sandbox }, by).sandbox).toEqual({
      provider: 'bwrap',
      id: 'sb-1',
      workerId: 'wk-1',
    })
  })

  test('costs of this lease are replaced, those before it stay, totals follow', () => {
    const run = aRun({ status: 'running', costs: [aCost({ label: 'run' }), aCost({ label: 'attempt 2' })] })
    const after = patchRun(run, { costs: [aCost(), aCost()] }, { ...by, costsBefore: 1, label: 'attempt 2' })
    expect(after.costs.map(({ label }) => label)).toEqual(['run', 'attempt 2', 'attempt 2'])
    expect(after.costTotals).toMatchObject({ costUsd: 1.5 })
    expect(patchRun(after, { status: 'finalizing' }, by).costs).toEqual(after.costs)
    expect(patchRun(after, { costs: [] }, by)).not.toHaveProperty('costTotals')
  })

  test('the state of one pull request is dropped for another', () => {
    const opened: Run = { ...patchRun(running, { prUrl: url }, by), prState: 'draft' }
    expect(opened).toMatchObject({ prUrl: url, prState: 'draft' })
    expect(patchRun(opened, { prUrl: url }, by)).toMatchObject({ prUrl: url, prState: 'draft' })
    const moved = patchRun(opened, { prUrl: otherUrl }, by)
    expect(moved.prUrl).toBe(otherUrl)
    expect(moved).not.toHaveProperty('prState')
  })

  test('another spelling of the known pull request’s address changes nothing', () => {
    const known: Run = { ...running, prUrl: url, prState: 'merged', pull: { ...pull, confirmed: true } }
    const files = { ...by, pull: { ...pull, remote: 'Owner/Name' } }
    expect(patchRun(known, { prUrl: `${url}/files` }, files)).toEqual(patchRun(known, {}, by))
    const moved = patchRun(known, { prUrl: otherUrl }, { ...by, pull: { ...pull, number: 2 } })
    expect(moved).toMatchObject({ prUrl: otherUrl, pull: { number: 2, confirmed: false } })
    expect(moved).not.toHaveProperty('prState')
    const elsewhere = patchRun(known, { prUrl: 'https://other.example/1' }, files)
    expect(elsewhere).toMatchObject({ prUrl: 'https://other.example/1', pull: { confirmed: false } })
  })
})

describe('finished', () => {
  const run = aRun({
    status: 'finalizing',
    startedAt: T0,
    error: 'old',
    sandbox: { provider: 'bwrap', id: 'sb-1', workerId: 'wk-1' },
  })

  test('status, finishedAt, result, costs, prUrl and sandbox.retainedUntil are set', () => {
    const outcome: RunOutcome = {
      status: 'completed',
      result: { branch: 'ada/eng-12', artifacts: ['log.txt'] },
      costs: [aCost()],
      agentSessionId: 's',
      prUrl: url,
      prState: 'open',
    }
    const { error: _, ...clean } = run
    expect(finishRun(run, outcome, end)).toEqual({
      ...clean,
      status: 'completed',
      finishedAt: T1,
      result: { branch: 'ada/eng-12', artifacts: ['log.txt'], prUrl: url },
      agentSessionId: 's',
      costs: [aCost({ label: 'run' })],
      costTotals: expect.objectContaining({ costUsd: 0.5 }),
      prUrl: url,
      sandbox: { provider: 'bwrap', id: 'sb-1', workerId: 'wk-1', retainedUntil: '2026-03-02T09:00:00.000Z' },
    })
  })

  test('the result’s pull request becomes the run’s; without a result the pull request is the result', () => {
    const withUrl = finishRun(
      run,
      { status: 'completed', result: { prUrl: url, artifacts: [] }, costs: [] },
      end,
    )
    expect(withUrl).toMatchObject({ prUrl: url, result: { prUrl: url } })
    const bare = finishRun(run, { status: 'completed', prUrl: url, costs: [] }, end)
    expect(bare.result).toEqual({ prUrl: url, artifacts: [] })
    expect(finishRun(run, { status: 'failed', prUrl: url, costs: [] }, end)).not.toHaveProperty('result')
    // The code host's answer replaces the address of the result only when it is the run's, letter for letter.
    const known: Run = { ...run, prUrl: url, prState: 'open', pull: { ...pull, confirmed: true } }
    const files = `${url}/files`
    for (const result of [undefined, { prUrl: files, artifacts: [] }])
      expect(
        finishRun(
          known,
          { status: 'completed', prUrl: files, costs: [], ...(result && { result }) },
          { ...end, pull },
        ),
      ).toMatchObject({ prUrl: url, pull: { confirmed: true }, result: { prUrl: url } })
  })

  test('a failure without a reason gets one, a success has no error', () => {
    expect(finishRun(run, { status: 'failed', costs: [] }, end).error).toBe('the worker gave no reason')
    expect(finishRun(run, { status: 'failed', error: 'boom', costs: [] }, end).error).toBe('boom')
    expect(finishRun(run, { status: 'completed', costs: [] }, end)).not.toHaveProperty('error')
  })

  test.each<[string, string, string | undefined]>([
    ['within reason', '2026-03-02T09:30:00.000Z', '2026-03-02T09:30:00.000Z'],
    ['already over', '2026-02-01T00:00:00.000Z', '2026-02-01T00:00:00.000Z'],
    ['a century', '2126-01-01T00:00:00.000Z', '2026-03-02T09:00:00.000Z'],
    ['no instant', 'never', '2026-03-02T09:00:00.000Z'],
  ])('a worker’s own retention instant: %s', (_, reported, expected) => {
    const outcome: RunOutcome = { status: 'failed', costs: [], sandbox: { retainedUntil: reported } }
    expect(finishRun(run, outcome, end).sandbox.retainedUntil).toBe(expected)
  })

  test('without a sandbox nothing is retained', () => {
    const outcome: RunOutcome = {
      status: 'failed',
      costs: [],
      sandbox: { retainedUntil: T1, workerId: 'wk-666' },
    }
    expect(finishRun(aRun({ status: 'running' }), outcome, end).sandbox).toEqual({
      provider: 'bwrap',
      workerId: 'wk-1',
    })
  })
})

describe('queued again', () => {
  const run = aRun({ status: 'running', startedAt: T0, costs: [aCost()], prUrl: url, prState: 'open' })

  test('requeued: startedAt cleared; costs and pull request kept', () => {
    const again = requeueRun(run, 'interrupted: the worker was lost', T1)
    expect(again).toMatchObject({
      status: 'queued',
      queuedAt: T1,
      costs: run.costs,
      prUrl: url,
      prState: 'open',
    })
    expect(again.queueReason).toBe('interrupted: the worker was lost')
    expect(again).not.toHaveProperty('startedAt')
    expect(requeueRun(again, undefined, T1)).not.toHaveProperty('queueReason')
  })

  test('a refused dispatch keeps the queue time of a waiting run', () => {
    expect(requeueRun(aRun(), undefined, T1).queuedAt).toBe(T0)
  })

  test('retried: result, error, startedAt, finishedAt, queueReason cleared; the pull request and costs kept', () => {
    const ended = aRun({
      ...run,
      status: 'failed',
      finishedAt: T1,
      error: 'boom',
      queueReason: 'x',
      result: { artifacts: [] },
      sandbox: { id: 'sb-1', workerId: 'wk-1' },
    })
    const { costTotals, ...again } = queueRetry(ended, T1)
    expect(again).toEqual(
      aRun({
        queuedAt: T1,
        costs: run.costs,
        prUrl: url,
        prState: 'open',
        sandbox: { id: 'sb-1', workerId: 'wk-1' },
      }),
    )
    expect(costTotals).toMatchObject({ costUsd: 0.5 })
  })
})

describe('ended without the worker', () => {
  const run = aRun({
    status: 'running',
    queueReason: 'x',
    prUrl: url,
    result: { branch: 'b', artifacts: ['a'] },
  })

  test('adopted: completed, with the pull request for a result', () => {
    expect(completeWithPull(run, T1)).toMatchObject({
      status: 'completed',
      finishedAt: T1,
      result: { prUrl: url, branch: 'b', artifacts: [] },
    })
    expect(() => completeWithPull(aRun(), T1)).toThrow('no pull request')
  })

  test('failed and cancelled', () => {
    expect(failRun(run, 'interrupted 3 times', T1)).toMatchObject({
      status: 'failed',
      error: 'interrupted 3 times',
    })
    expect(cancelRun(run, T1)).toMatchObject({ status: 'cancelled', finishedAt: T1 })
    expect(cancelRun(aRun({ error: 'old' }), T1)).not.toHaveProperty('error')
    expect(cancelRun(run, T1, 'fenced off').error).toBe('fenced off')
    expect(cancelRun(run, T1)).not.toHaveProperty('queueReason')
  })

  test('discarded: the sandbox is gone, and known to have existed', () => {
    const kept = aRun({ status: 'failed', sandbox: { id: 'sb-1', workerId: 'wk-1', retainedUntil: T1 } })
    expect(markSandboxDiscarded(kept, T0).sandbox).toEqual({ workerId: 'wk-1', retainedUntil: T0 })
  })
})

test('a run that is queued anew, or completed as before its follow-up, tells of no keys', () => {
  const held = aRun({ status: 'failed', foundKeys: [{ kind: 'an npm token', file: 'a.env', line: 1 }] })
  const changed = [queueRetry(held, T1), queueFollowUp(held, T1), revertFollowUp(held, null, 'x', T1)]
  for (const run of changed) expect(run).not.toHaveProperty('foundKeys')
})

// ---- laws --------------------------------------------------------------------------------------------------------

const checkRun = createChecker(Run)
const maybe = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: undefined })
const anySandbox = maybe(
  fc
    .record({ id: maybe(fc.constantFrom('sb-1', 'sb-2')), retainedUntil: maybe(fc.constantFrom(T0, T1)) })
    .map((sandbox) => dense<Run['sandbox']>(sandbox)),
)
const common = {
  agentSessionId: maybe(fc.constant('s')),
  prUrl: maybe(fc.constantFrom(url, otherUrl)),
  prState: maybe(fc.constantFrom('open', 'merged')),
  sandbox: anySandbox,
}
const anyPatch = fc
  .record({
    ...common,
    status: maybe(fc.constantFrom('preparing', 'running', 'finalizing')),
    costs: maybe(fc.array(anyCost, { maxLength: 3 })),
  })
  .map((patch) => dense<RunPatch>(patch))
const anyOutcome = fc
  .record({
    ...common,
    status: fc.constantFrom('completed', 'failed', 'cancelled'),
    costs: fc.array(anyCost, { maxLength: 3 }),
    result: maybe(fc.constant({ artifacts: [] })),
    error: maybe(fc.constant('boom')),
  })
  .map((outcome) => dense<RunOutcome>(outcome))

type Change = (run: Run) => Run
const anyChange: fc.Arbitrary<Change> = fc.oneof(
  fc.constantFrom('wk-1', 'wk-2').map(
    (workerId): Change =>
      (run) =>
        acceptRun(run, { workerId, now: T1 }),
  ),
  anyPatch.map(
    (patch): Change =>
      (run) =>
        patchRun(run, patch, by),
  ),
  anyOutcome.map(
    (outcome): Change =>
      (run) =>
        finishRun(run, outcome, end),
  ),
  fc.constantFrom<Change>(
    (run) => requeueRun(run, 'interrupted: it', T1),
    (run) => requeueRun(run, undefined, T1),
    (run) => failRun(run, 'boom', T1),
    (run) => cancelRun(run, T1),
    (run) => queueRetry(run, T1),
    (run) => markSandboxDiscarded(run, T1),
    (run) => (run.prUrl === undefined ? run : completeWithPull(run, T1)),
  ),
)

const frozen = (value: unknown): void => {
  if (typeof value !== 'object' || value === null) return
  Object.freeze(value)
  Object.values(value).forEach(frozen)
}

test('any sequence of changes keeps the record valid and changes no argument', () => {
  fc.assert(
    fc.property(fc.array(anyChange, { maxLength: 12 }), (changes) => {
      let run = newRun('run-1', aTicket, DEFAULT_SANDBOX_PROVIDER, T0)
      for (const change of changes) {
        frozen(run)
        run = change(run)
        expect(checkRun(run)).toMatchObject({ ok: true })
        expect(dense(run)).toStrictEqual(run)
        if (run.status === 'queued') expect(run).not.toHaveProperty('startedAt')
        else expect(run).not.toHaveProperty('queueReason')
        expect(run.costs.length > 0).toBe(run.costTotals !== undefined)
      }
    }),
  )
})

/** Tests of PullConfirmer with a manual clock: which questions it asks the code host, and how often. */

import { expect, test } from '@jest/globals'
import type { HostContext } from '../../../actors/host-context.ts'
import { PULL_ANSWER_MS_MAX, PullConfirmer } from '../../../actors/runs/pull-confirmer.ts'
import type { PullAnswerEvent, RunContext } from '../../../actors/runs/run.machine.ts'
import { no, yes } from '../../../core/result.ts'
import type { Run, RunPull } from '../../../protocol/run.ts'
import { aRun } from '../../rules/run/runs.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { ManualPullRequests, manualPullUrl } from '../../support/manual-code-host.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

const PULL: RunPull = { remote: 'owner/name', number: 1, branch: 'switchyard/eng-1', confirmed: false }
const URL = manualPullUrl(PULL.remote, PULL.number)

/** A confirmer and one queued run whose worker was lost after it had reported a pull request. */
function createConfirmer({ listed }: { readonly listed: readonly Run[] }) {
  const [clock, pulls] = [new ManualClock(), new ManualPullRequests()]
  const instant = () => new Date(clock.now()).toISOString()
  const run: Run = aRun({ prUrl: URL, prState: 'open', pull: PULL })
  const context: RunContext = {
    run,
    job: 'run',
    lease: null,
    attempts: 1,
    costsBefore: 0,
    interruptions: 1,
    opened: true,
    place: PULL,
    opener: null,
    adoption: { since: instant(), startedAt: null, reason: null },
    publishing: null,
    doneAt: null,
    earlier: null,
    woken: null,
    followUp: null,
  }
  const answers: PullAnswerEvent[] = []
  // The casts hold because the confirmer uses nothing else of the host.
  const host = {
    clock,
    random: { fraction: () => 0.5 },
    log: createRecordingLog(),
    instant,
    store: { database: { runs: { list: () => [...listed] } } },
    pullRequestApi: () => yes(pulls),
    system: { keys: () => [run.id], peek: () => ({ context }) },
    publish: () => {},
  } as unknown as HostContext
  const modules = {
    runs: { latest: () => run, send: (_: string, event: PullAnswerEvent) => answers.push(event) > 0 },
    jobs: { runPulls: { reported: () => yes(PULL) } },
    workers: { registry: { lease: () => undefined } },
    leases: { endedLeases: { runOf: () => undefined } },
  } as unknown as ConstructorParameters<typeof PullConfirmer>[1]
  const confirmer = new PullConfirmer(host, modules)
  return { clock, pulls, confirmer, answers }
}

test('after a start a run that waits for the code host is asked about, however many runs are newer', async () => {
  const { clock, pulls, confirmer, answers } = createConfirmer({ listed: [] })
  pulls.refusal = no('failed', 'the code host is down')
  confirmer.start()
  await clock.advance(PULL_ANSWER_MS_MAX * 2)
  expect(answers.at(-1)).toMatchObject({ type: 'pull answer overdue', asked: URL })
  confirmer.stop()
})

test('changes of the configuration start no second retry and no second question at a time', async () => {
  const { clock, pulls, confirmer } = createConfirmer({ listed: [] })
  pulls.refusal = no('failed', 'the code host is down')
  confirmer.start()
  for (let change = 0; change < 5; change += 1) confirmer.onCodeHostChanged()
  expect(pulls.requests).toHaveLength(1)
  await clock.settle()
  expect(pulls.requests).toHaveLength(2)
  expect(clock.timers).toBe(1)
  confirmer.onCodeHostChanged()
  await clock.settle()
  expect(pulls.requests).toHaveLength(3)
  expect(clock.timers).toBe(1)
  confirmer.stop()
  expect(clock.timers).toBe(0)
})

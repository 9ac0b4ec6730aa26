/**
 * `applyPullAnswer` applies what the code host answers about a run's pull request, whether the run is active or finished.
 *
 * A dropped address stands in the run's log. Other modules hear of the first confirmation as the view `pull confirmed`.
 */
import { confirmPull, dropPull } from '../../core/run/run-pull.ts'
import type { Run } from '../../protocol/run.ts'
import type { ViewChange } from '../runtime/module.ts'
import type { FinishedRuns } from './finished-runs.ts'
import type { PullAnswerEvent } from './run.machine.ts'
import type { RunEventLog } from './run-event-log.ts'
import type { RunManager } from './run-manager.ts'

export interface PullAnswerPorts {
  readonly runs: Pick<RunManager, 'latest' | 'send'>
  readonly finishedRuns: Pick<FinishedRuns, 'update'>
  readonly runEventLog: RunEventLog
  readonly publish: (change: ViewChange) => void
}

export function applyPullAnswer(ports: PullAnswerPorts, runId: string, event: PullAnswerEvent): void {
  const { runs, runEventLog, publish } = ports
  const before = runs.latest(runId)
  // The run may have another pull request by now.
  if (before === undefined || before.prUrl !== event.asked) return
  if (event.type === 'pull refuted')
    runEventLog.appendText(runId, event.at, `the pull request ${event.asked} was not kept: ${event.reason}`)
  if (!runs.send(runId, event)) updateFinishedRun(ports, before, event)
  if (event.type === 'pull confirmed' && before.pull?.confirmed !== true)
    publish({ view: 'pull confirmed', key: runId })
  publish({ view: 'wait reason', key: runId })
}

function updateFinishedRun({ finishedRuns }: PullAnswerPorts, run: Run, event: PullAnswerEvent): void {
  if (event.type === 'pull confirmed') finishedRuns.update(confirmPull(run, event.pull, event))
  if (event.type === 'pull refuted') finishedRuns.update(dropPull(run))
}

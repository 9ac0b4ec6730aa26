/** previewSupervision asks the host like a supervisor, and says what a supervisor would do. It changes nothing. */
import {
  freshMemory,
  judgeFirstAnswer,
  judgeServing,
  judgeStopped,
  noteSilence,
  type OwnDemand,
  observe,
  type SupervisionMemory,
  type SupervisionSettings,
  type SupervisionStep,
} from '../core/fleet/supervision.ts'
import type { DemandPort } from '../core/fleet/supervision-ports.ts'
import type { Log } from '../core/ports.ts'
import { realClock } from './clock.ts'
import type { StopSignals } from './signals.ts'

interface PreviewContext {
  readonly demand: DemandPort
  readonly settings: SupervisionSettings
  readonly pollMs: number
  readonly log: Log
  readonly signals: StopSignals
}

const SENTENCES: Readonly<Record<SupervisionStep, string>> = {
  drain: 'would drain the worker, and stop it when nothing is in flight',
  stop: 'would stop the worker',
  lift: 'would end the drain of this supervisor',
  start: 'would start the worker',
  serve: 'would leave the worker running',
  rest: 'would leave the worker stopped',
  wait: 'would wait',
}

/** Resolves at a stop signal. */
export async function previewSupervision({
  demand,
  settings,
  pollMs,
  log,
  signals,
}: PreviewContext): Promise<void> {
  let isStopped = false
  let wake = () => {}
  signals.onStop(() => {
    isStopped = true
    wake()
  })
  let memory = freshMemory(realClock.monotonic() - settings.upMs)
  let printed: string | undefined
  while (!isStopped) {
    const answer = await demand.ask('read')
    const now = realClock.monotonic()
    if (answer.is === 'unanswered') {
      memory = noteSilence(memory)
      if (answer.reason !== printed)
        log.warn({ reason: answer.reason }, 'the demand is not known; asking again')
      printed = answer.reason
    } else {
      memory = observe(memory, answer.demand, now)
      const sentence = SENTENCES[nextStep(memory, answer.demand, settings, now)]
      const { worker, wanted } = answer.demand
      if (sentence !== printed) log.info({ wanted, ...worker }, sentence)
      printed = sentence
    }
    await new Promise<void>((resolve) => {
      wake = resolve
      realClock.after(pollMs, resolve)
    })
  }
}

function nextStep(
  memory: SupervisionMemory,
  demand: OwnDemand,
  settings: SupervisionSettings,
  now: number,
): SupervisionStep {
  const { connected } = demand.worker
  const step = (connected ? judgeServing : judgeStopped)(memory, demand, settings, now)
  return step === 'wait' ? judgeFirstAnswer(memory, demand, settings, now) : step
}

/**
 * Judges the gates at the workers: who is there, who has room, a credential, a sandbox.
 *
 * Each gate is judged among the workers that could be meant, whatever the other gates say of them. Where no worker is
 * usable, the connected ones are judged, so that a second obstacle is visible too.
 */
import { AGENTS, type AgentProvider } from '../../protocol/agents/registry.ts'
import type { Gate, GateId } from '../../protocol/explain.ts'
import { formatSeconds } from '../../protocol/format.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import { isSilent, obstaclesOf, type WorkerObstacle } from '../fleet/obstacles.ts'
import { formatNames } from '../tickets/names.ts'
import { connectCommandFor } from './connect-command.ts'
import type { ExplainedWorker, ExplainFacts, SentTo } from './facts.ts'
import { orElse, pass, stop, wait } from './facts.ts'

/** Another machine is one more worker. */
const ADD_WORKER = 'switchyard workers provision USER@HOST'
const NOBODY = 'no connected worker to ask'

interface JudgedWorker {
  readonly worker: ExplainedWorker
  readonly obstacles: readonly WorkerObstacle[]
}

const hasObstacle =
  (gate: GateId) =>
  ({ obstacles }: JudgedWorker): boolean =>
    obstacles.some((obstacle) => obstacle.gate === gate)

const namesOf = (workers: readonly JudgedWorker[]): string =>
  formatNames(workers.map(({ worker }) => worker.name))

/** A follow-up concerns the worker that holds its sandbox, and no other. */
function judgedWorkers({ workers, request, now }: ExplainFacts): JudgedWorker[] {
  const { requiredWorker } = request
  return workers
    .filter(({ id }) => requiredWorker === undefined || id === requiredWorker)
    .map((worker) => ({ worker, obstacles: obstaclesOf(worker, request, now) }))
}

function candidates(facts: ExplainFacts): JudgedWorker[] {
  const connected = judgedWorkers(facts).filter(({ worker }) => worker.online)
  const usable = connected.filter((judged) => !hasObstacle('workers')(judged))
  return usable.length > 0 ? usable : connected
}

/** Returns the reason that every candidate has at this gate, or for which the run waits at this gate. */
export function sharedReasonAt(gate: GateId, facts: ExplainFacts): string | undefined {
  const reasonsOf = ({ obstacles }: JudgedWorker): string[] =>
    obstacles.filter((obstacle) => obstacle.gate === gate).map(({ reason }) => reason)
  const { waitsFor } = facts.run ?? {}
  if (waitsFor?.gate === gate && judgedWorkers(facts).flatMap(reasonsOf).includes(waitsFor.reason))
    return waitsFor.reason
  const found = candidates(facts)
  return found.every(hasObstacle(gate)) ? found.flatMap(reasonsOf)[0] : undefined
}

// ---- workers -----------------------------------------------------------------------------------------------------

export function judgeWorkers(facts: ExplainFacts): Gate {
  const all = judgedWorkers(facts)
  const usable = all.filter((judged) => !hasObstacle('workers')(judged))
  const others = all.flatMap(({ worker, obstacles }) => {
    const obstacle = obstacles.find(({ gate }) => gate === 'workers')
    return obstacle === undefined ? [] : [{ worker, obstacle }]
  })
  const not = describeOthers(others, facts)
  if (usable.length > 0) return pass('workers', `${namesOf(usable)}${not}`)
  if (all.length === 0) return stop('workers', 'none is enrolled', ADD_WORKER)
  if (others.some(({ obstacle }) => obstacle.is === 'unlimited'))
    return stop('workers', `none${not}`, 'switchyard config unset sandbox.memoryMib')
  const agent = facts.request.needs?.agent
  const without = others.filter(({ obstacle }) => obstacle.is === 'lasting').map(({ worker }) => worker.name)
  if (agent !== undefined && without.length > 0) {
    const rest = describeOthers(
      others.filter(({ obstacle }) => obstacle.is !== 'lasting'),
      facts,
    )
    return stop('workers', `${agentName(agent)} is not installed on ${formatNames(without)}${rest}`)
  }
  const draining = others.find(({ obstacle }) => obstacle.is === 'draining')
  return draining === undefined
    ? wait('workers', `none${not}`, startAgain(facts, others))
    : stop('workers', `none${not}`, `switchyard workers enable ${draining.worker.name}`)
}

/** The host keeps the run for a worker that went before it answered, because it may have begun. */
export function judgeSentTo(worker: SentTo, facts: ExplainFacts): Gate {
  const { name } = worker
  const away = `${name}, which is not connected${lastSeen(worker, facts)}`
  return wait('workers', `the run was sent to ${away}`, startAgain(facts, [{ worker }]))
}

const lastSeen = ({ lastSeenAt }: Pick<ExplainedWorker, 'lastSeenAt'>, { now }: ExplainFacts): string =>
  lastSeenAt === undefined
    ? ''
    : `, last seen ${formatSeconds(Math.round(Math.max(0, now - lastSeenAt) / 1000))} ago`

/** The wait for workers that are away ends when one of them comes back, or when another one comes. */
function startAgain(
  { request }: ExplainFacts,
  others: readonly { readonly worker: Pick<ExplainedWorker, 'name'> }[],
): string {
  const names = formatNames(others.map(({ worker }) => worker.name))
  const [first] = others
  const whom = others.length > 1 ? `one of ${names}` : names
  // Another worker is no cure for a run that needs the sandbox of this one.
  return request.requiredWorker === undefined || first === undefined
    ? `wait, or start ${whom} again on its machine, or: ${ADD_WORKER}`
    : `wait, or start ${whom} again on its machine; which one that is: switchyard workers show ${quoteWord(first.worker.name)}`
}

/** Another worker is no cure for a run that needs the sandbox of this one. */
const moreWorkers = ({ request }: ExplainFacts): string | undefined =>
  request.requiredWorker === undefined ? orElse(ADD_WORKER) : undefined

/** People know an agent by its product; configurations know it by the name on the wire. */
const agentName = (agent: AgentProvider): string => AGENTS[agent].displayName

interface UnusableWorker {
  readonly worker: ExplainedWorker
  readonly obstacle: WorkerObstacle
}

function describeOthers(others: readonly UnusableWorker[], facts: ExplainFacts): string {
  const names = others.map((unusable) => `${unusable.worker.name} (${shortReason(unusable, facts)})`)
  return names.length === 0 ? '' : `; not ${formatNames(names)}`
}

function shortReason({ worker, obstacle }: UnusableWorker, facts: ExplainFacts): string {
  const { is, reason } = obstacle
  if (is === 'unlimited') return 'no memory limit'
  if (is === 'away') return `${reason}${lastSeen(worker, facts)}`
  return is === 'lasting' ? `no ${facts.request.needs?.agent ?? 'agent'}` : reason
}

// ---- capacity ----------------------------------------------------------------------------------------------------

export function judgeCapacity(facts: ExplainFacts): Gate {
  const found = candidates(facts)
  if (found.length === 0) return pass('capacity', NOBODY)
  const slots = found.map(({ worker: { name, used, max } }) => `${name} ${used} of ${max}`)
  const refusals = found.flatMap(({ worker, obstacles }) =>
    obstacles.filter(({ is }) => is === 'paused').map(({ reason }) => `; ${worker.name} ${reason}`),
  )
  const message = `${formatNames(slots)} slots${refusals.join('')}`
  if (!found.every(hasObstacle('capacity'))) return pass('capacity', message)
  const silent = found.filter(
    ({ worker, obstacles }) => isSilent(worker) && obstacles.some(({ is }) => is === 'paused'),
  )
  if (silent.length === found.length) return wait('capacity', message, startAgain(facts, silent))
  return wait('capacity', `${message}${placeInLine(facts)}`, moreWorkers(facts))
}

function placeInLine({ run }: ExplainFacts): string {
  if (run?.ahead === undefined) return ''
  if (run.ahead === 0) return '; next in line'
  return run.ahead === 1 ? '; 1 run is before it' : `; ${run.ahead} runs are before it`
}

// ---- credential --------------------------------------------------------------------------------------------------

export function judgeCredential(facts: ExplainFacts): Gate {
  const { needs } = facts.request
  const found = candidates(facts)
  const unmet =
    sharedReasonAt('credential', facts) ?? (found.length === 0 ? needs?.missingCredential : undefined)
  if (unmet !== undefined) {
    const [subject = unmet] = unmet.split(': ')
    return stop('credential', subject, connectCommandFor(unmet))
  }
  if (needs === undefined) return pass('credential', 'no repository chooses an agent yet')
  if (needs.agent === undefined) return pass('credential', 'the command of the configuration brings its own')
  const on = found.length === 0 ? '' : ` on ${namesOf(found)}`
  return needs.missingCredential === undefined
    ? pass('credential', `${needs.agent} is logged in${on}`)
    : pass('credential', `${needs.agent} is not checked${on}`)
}

// ---- sandbox -----------------------------------------------------------------------------------------------------

export function judgeSandbox(facts: ExplainFacts): Gate {
  const found = candidates(facts)
  if (found.length === 0) return pass('sandbox', NOBODY)
  const [first] = found
  if (first !== undefined && found.every(hasObstacle('sandbox'))) {
    const holds = found.flatMap(({ worker, obstacles }) =>
      obstacles.filter(({ gate }) => gate === 'sandbox').map(({ reason }) => `${worker.name} is ${reason}`),
    )
    return wait('sandbox', formatNames(holds), `switchyard workers enable ${first.worker.name}`)
  }
  const providers = new Set(found.map(({ worker }) => worker.provider ?? 'a sandbox'))
  const parts = [...providers].map(
    (provider) =>
      `${provider} on ${namesOf(found.filter(({ worker }) => (worker.provider ?? 'a sandbox') === provider))}`,
  )
  return pass('sandbox', formatNames(parts))
}

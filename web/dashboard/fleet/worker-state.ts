/** Sentences about a worker: its state in words, what remains, until when it may come back, what its loss would cost. */
import { holderName } from '../../../client/worker-words.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import { formatMoney } from '../../../protocol/format.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { countOf, formatCount } from '../../text/amounts.ts'
import { ageOf, formatClock, formatDuration, formatInstant } from '../../text/times.ts'
import type { FleetRow } from './fleet-rows.ts'

type LeaseTimes = Pick<ServiceConfig['fleet'], 'heartbeatTimeoutSeconds' | 'reconnectGraceSeconds'>

/** The word beside the name; an online worker needs none. */
export function stateWord({ situation, worker }: FleetRow, now: number): string | undefined {
  if (situation === 'online') return undefined
  if (situation === 'new') return 'Has never connected'
  if (situation === 'drained') return 'Drained'
  if (situation === 'draining') return 'Draining'
  const age = worker.lastSeenAt === undefined ? '' : ` ${formatDuration(ageOf(worker.lastSeenAt, now))}`
  return `Offline${age}${worker.state === 'draining' ? ', draining' : ''}`
}

/**
 * The instant at which the leases of an absent worker end at the earliest; undefined where it holds none. After its own
 * start the host lets each lease live a full term again.
 */
export function leaseEndOf(worker: WorkerView, fleet: LeaseTimes): number | undefined {
  const { connection, activeRuns, lastSeenAt } = worker
  if (connection === 'online' || activeRuns === 0 || lastSeenAt === undefined) return undefined
  return Date.parse(lastSeenAt) + (fleet.heartbeatTimeoutSeconds + fleet.reconnectGraceSeconds) * 1_000
}

/** The consequence of the state, in one or two sentences. */
export function stateSentence(row: FleetRow, fleet: LeaseTimes, now: number): string | undefined {
  const { situation, worker } = row
  if (situation === 'new') return 'It was enrolled, and has not connected yet.'
  if (situation === 'drained') return `Safe to stop. No new runs start here.${drainedBy(worker)}`
  if (situation === 'draining')
    return `${remaining(worker)}. No new runs start here. Safe to stop when none remain.${drainedBy(worker)}`
  if (situation === 'offline') return offlineSentence(worker, fleet, now)
  if (worker.capabilities?.ending === true) return 'It takes no more runs and is about to end.'
  return worker.capabilities?.once === true ? 'It takes one run, and ends after it.' : undefined
}

function remaining({ activeRuns, attachSessions = 0 }: WorkerView): string {
  const runs = activeRuns === 0 ? '' : countOf(activeRuns, 'run')
  const terminals = attachSessions === 0 ? '' : countOf(attachSessions, 'terminal')
  const isOne = activeRuns + attachSessions === 1
  return `${[runs, terminals].filter(Boolean).join(' and ')} ${isOne ? 'remains' : 'remain'}`
}

const drainedBy = ({ drainedBy: holders = [] }: WorkerView): string =>
  holders.length === 0 ? '' : ` Drained by ${holders.map(holderName).join(' and ')}.`

function offlineSentence(worker: WorkerView, fleet: LeaseTimes, now: number): string {
  const end = leaseEndOf(worker, fleet)
  if (end === undefined)
    return `It holds no run, and takes runs again when it comes back.${drainedBy(worker)}`
  const runs = worker.activeRuns === 1 ? 'Its run is' : `Its ${formatCount(worker.activeRuns)} runs are`
  if (end <= now)
    return `${runs} still waited for, and queued again unless it comes back soon.${drainedBy(worker)}`
  const they = worker.activeRuns === 1 ? 'it is' : 'they are'
  return `${runs} waited for until ${formatClock(end)}, then ${they} queued again.${drainedBy(worker)}`
}

/** `Holds 3 retained sandboxes until 18:40`: until the last of them is deleted. */
export function retainedSentence({ retained }: FleetRow, now: number): string | undefined {
  const ends = retained.flatMap(({ sandbox }) => sandbox.retainedUntil ?? []).sort()
  const last = ends.at(-1)
  if (last === undefined) return undefined
  return `Holds ${countOf(ends.length, 'retained sandbox', 'retained sandboxes')} until ${formatInstant(last, now)}`
}

/** The loss by a revocation, in numbers. */
export function revokeLoss(row: FleetRow, now: number): string {
  const { worker, leases, retained } = row
  const { activeRuns, attachSessions = 0 } = worker
  const sentences: string[] = []
  if (activeRuns > 0) {
    const isOne = activeRuns === 1
    sentences.push(`${countOf(activeRuns, 'run')} ${isOne ? 'is' : 'are'} in progress there.`)
    sentences.push(
      `${isOne ? 'It is' : 'They are'} interrupted and queued again when ${isOne ? 'its lease ends' : 'their leases end'}${workOf(leases, now)}.`,
    )
  }
  if (attachSessions > 0)
    sentences.push(`${countOf(attachSessions, 'terminal')} ${attachSessions === 1 ? 'closes' : 'close'}.`)
  if (retained.length > 0)
    sentences.push(
      `${countOf(retained.length, 'retained sandbox', 'retained sandboxes')} ${retained.length === 1 ? 'is' : 'are'} deleted.`,
    )
  if (sentences.length === 0) sentences.push('It holds no run and no sandbox.')
  return `${sentences.join(' ')} The machine needs a new token to come back.`
}

/** `, and lose 1 h 10 m of work, $8.69`: what the runs have taken and cost so far. */
function workOf(leases: FleetRow['leases'], now: number): string {
  const begun = leases.filter(({ startedAt }) => startedAt !== undefined)
  const ms = begun.reduce((sum, run) => sum + (ageOf(run.startedAt, now) ?? 0), 0)
  if (ms === 0) return ''
  const costs = leases.flatMap(({ costTotals }) => (costTotals?.costUsd === undefined ? [] : [costTotals]))
  const costUsd = costs.reduce((sum, cost) => sum + (cost.costUsd ?? 0), 0)
  const estimated = costs.some((cost) => cost.estimated)
  const money = costs.length === 0 ? '' : `, ${formatMoney({ costUsd, estimated })}`
  return `, and ${leases.length === 1 ? 'loses' : 'lose'} ${formatDuration(ms)} of work${money}`
}

/** The agents that the configuration gives to runs. A command of its own stands in for the agent of the machine. */
export function neededAgents({ agent, repos }: Pick<ServiceConfig, 'agent' | 'repos'>): ReadonlySet<string> {
  const given = [agent.provider, ...Object.values(repos).flatMap((repo) => repo.agent ?? [])]
  return new Set(given.filter((provider) => agent.commands[provider] === undefined))
}

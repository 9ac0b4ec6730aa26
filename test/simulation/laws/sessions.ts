/**
 * Laws about people in sandboxes: nothing is booted for nobody, nothing of it outlives them, and what they see is true.
 *
 * What is booted is seen on the worker itself; who looks at it, on the wires and at the terminals where people sit.
 */

import type { Wire } from '../network.ts'
import type { Boot } from '../sandboxes.ts'
import type { Seat } from '../terminal-viewers.ts'
import type { Law, Sight } from './law.ts'
import { type Held, Holdings, nameOf, Onlookers } from './terminal-observers.ts'

/** As the host and its workers have promised: a page that is loaded anew, a line that comes back. */
const RELOAD_MS = 20_000
const RETURN_MS = 30_000
const AWAY_MS = 120_000
const BOOT_MS = 60_000
/** Clocks that run apart, and the pace at which laws look around. */
const LATE_MS = 4_500
const CLOCKS = 1.011

const watchedOrShort: Law = {
  number: 'S1',
  sentence: 'a booted sandbox has a viewer or a grace deadline, on its worker, and who views is told',
  watch: (sight, broken) => {
    const onlookers = new Onlookers()
    const bootedOn = (worker: string) =>
      [...sight.boots].filter((boot) => boot.worker === worker).map(({ runId }) => runId)
    return {
      workerHears: ({ worker }, frame) => onlookers.heard(worker, frame, sight.now()),
      workerSends: ({ plan }, _wire, frame) => {
        onlookers.said(plan.id, frame, sight.now())
        const open = onlookers.count(plan.id)
        if (frame.type === 'heartbeat' && frame.attachSessions !== open)
          broken(`${plan.id} tells of ${frame.attachSessions} views`, { open })
      },
      lineDown: ({ plan }) => onlookers.lineDown(plan.id, bootedOn(plan.id), sight.now()),
      bootMoved: ({ worker, runId, stage }) => {
        if (stage === 'booted') onlookers.asked(worker, runId, sight.now())
      },
      ticked: () => {
        for (const { worker, runId, stage, process } of sight.boots) {
          if (stage !== 'booted' || sight.isDrowsy(process) || onlookers.has(worker, runId)) continue
          const { at = 0, how = 'asked' } = onlookers.since(worker, runId) ?? {}
          const idleMs = sight.now() - at
          if (idleMs > (how === 'left' ? RETURN_MS : AWAY_MS) * CLOCKS + LATE_MS)
            broken(`${runId} is booted on ${worker}, and nobody has looked at it`, { idleMs, how })
        }
      },
    }
  },
}

/** When somebody last sat there. */
function seatedAt(sight: Sight, runId: string): number {
  let at = 0
  for (const seat of sight.seats) if (seat.runId === runId) at = Math.max(at, seat.closedAt ?? sight.now())
  return at
}

const hostLetsGo: Law = {
  number: 'S2',
  sentence: 'a booted sandbox has a viewer or a grace deadline, in the host',
  watch: (sight, broken) => {
    const holdings = new Holdings()
    return {
      booted: () => holdings.restarted(),
      hostSends: (wire, frame) => {
        holdings.sent(sight, wire, frame)
        const held = frame.type === 'dispatch' ? holdings.held.get(frame.lease.runId) : undefined
        if (frame.type === 'dispatch' && held !== undefined && !isGivenUp(sight, wire, held))
          broken(`${frame.lease.runId} is dispatched, and its sandbox is booted`, { worker: wire.worker })
      },
      hostHears: (wire, frame) => holdings.heard(sight, wire, frame),
      ticked: () => {
        for (const held of holdings.held.values()) {
          const { runId, workerId, orderedAt, isReady } = held
          const wire = sight.currentWire(workerId)
          const isAway = wire?.hostOpen !== true || sight.worker(workerId) === undefined
          held.awaySince = isAway ? (held.awaySince ?? sight.now()) : undefined
          held.idleSince = Math.max(held.idleSince, seatedAt(sight, runId))
          if (isAway || !sight.hostIsAwake()) held.idleSince = sight.now()
          const idleMs = sight.now() - (isReady ? held.idleSince : orderedAt)
          if (isAway || !sight.hostIsAwake()) continue
          if (idleMs > (isReady ? RELOAD_MS : BOOT_MS) * CLOCKS + LATE_MS)
            broken(`${runId} stays booted on ${workerId} for nobody`, { idleMs, isReady })
        }
      },
    }
  },
}

/**
 * Its worker went while it booted, or is away for longer than is waited for it: it is told to release it when it is
 * back, and until then another one may have the run.
 */
function isGivenUp(sight: Sight, to: Wire, { workerId, isReady, awaySince }: Held): boolean {
  if (awaySince === undefined || sight.registeredAs(to) === workerId) return false
  return !isReady || (sight.now() - awaySince + LATE_MS) * CLOCKS > AWAY_MS
}

/** What closes a sandbox takes; and what is booted to be closed at once takes that, too. */
const CLOSING_MS = 15_000
const BOOTING_MS = 75_000

const nothingOutlives: Law = {
  number: 'S3',
  sentence: 'no credentials outlive the session: what was released, discarded or left is gone',
  watch: (sight, broken) => {
    const doomed = new Map<Boot, number>()
    const doom = (worker: string, runId: string) => {
      for (const boot of sight.boots)
        if (boot.worker === worker && boot.runId === runId && !doomed.has(boot)) doomed.set(boot, sight.now())
    }
    return {
      workerHears: ({ worker }, frame) => {
        if (frame.type === 'sandbox-release' || frame.type === 'discard') doom(worker, frame.runId)
      },
      bootMoved: (boot) => {
        if (boot.stage === 'closing') doomed.set(boot, sight.now())
      },
      bootGone: (boot) => void doomed.delete(boot),
      ticked: () => {
        for (const boot of sight.boots) if (boot.isOver && !doomed.has(boot)) doomed.set(boot, sight.now())
        for (const [boot, at] of doomed) {
          if (sight.isDrowsy(boot.process)) continue
          const ms = sight.now() - at
          const most = boot.stage === 'closing' ? CLOSING_MS : boot.stage === 'booting' ? BOOTING_MS : LATE_MS
          if (ms > most + LATE_MS) broken(`${boot.runId} is ${boot.stage} on ${boot.worker}`, { ms })
        }
      },
    }
  },
}

const oneAtATime: Law = {
  number: 'S4',
  sentence:
    'a sandbox is booted once, and not while its run is executed; nobody executes or deletes it meanwhile',
  watch: (sight, broken) => {
    const bootOf = (worker: string, runId: string, process: object) =>
      [...sight.boots].find(
        (boot) => boot.worker === worker && boot.runId === runId && boot.process === process,
      )
    return {
      boots: (boot) => {
        for (const other of sight.boots)
          if (other !== boot && other.runId === boot.runId && other.process === boot.process)
            broken(`${boot.runId} is booted twice on ${boot.worker}`)
        for (const execution of sight.executions)
          if (execution.runId === boot.runId && execution.process === boot.process)
            broken(`${boot.runId} is booted and executed`, { leaseId: execution.leaseId })
      },
      started: ({ worker, runId, leaseId, process }) => {
        if (bootOf(worker, runId, process) !== undefined)
          broken(`${runId} is executed where somebody is in its sandbox`, { worker, leaseId })
      },
      sandboxDiscarded: ({ plan, process }, runId) => {
        if (process !== undefined && bootOf(plan.id, runId, process) !== undefined)
          broken(`the sandbox of ${runId} is discarded while somebody is in it`, { worker: plan.id })
      },
    }
  },
}

/** Disk is looked through every five minutes. */
const RECLAIM_MS = 5 * 60_000

const keptWhileUsed: Law = {
  number: 'S5',
  sentence: 'taking a sandbox back is postponed while it is booted, and never forgotten',
  watch: (sight, broken) => {
    const since = new Map<string, { readonly at: number; readonly process: object | undefined }>()
    return {
      reclaims: ({ plan, process }, isClaimed) => {
        for (const { worker, runId, process: own } of sight.boots)
          if (worker === plan.id && own === process && !isClaimed(runId))
            broken(`${runId} is booted on ${worker} and may be taken back`)
      },
      overdue: ({ plan, process }, runIds) => {
        const all = new Set(runIds.map((runId) => nameOf(plan.id, runId)))
        const isAsleep = process === undefined || sight.isDrowsy(process)
        for (const name of since.keys())
          if (name.startsWith(`${plan.id} `) && (!all.has(name) || isAsleep)) since.delete(name)
        for (const name of isAsleep ? [] : all) {
          const known = since.get(name)
          if (known?.process !== process) since.set(name, { at: sight.now(), process })
          else if (known !== undefined && sight.now() - known.at > RECLAIM_MS * CLOCKS + 30_000)
            broken(`the sandbox ${name} could have been taken back`, { ms: sight.now() - known.at })
        }
      },
    }
  },
}

/** What is typed is answered, and what is over is told, within a moment. */
const MOMENT_MS = 10_000
/** By then a session was ready to be looked at, or its person was told that it is not. */
const READY_MS = 75_000

const everybodySees: Law = {
  number: 'S6',
  sentence:
    'everybody who looks at a session sees all that it has printed, once, and none who is there has to wait',
  watch: (sight, broken) => {
    const blindSince = new WeakMap<Seat, number>()
    return {
      ticked: () => {
        const isJudged = sight.hostIsAwake() && !sight.hostile
        for (const { runId, person, isOpen, shownAt, blankSince } of isJudged ? sight.seats : [])
          if (isOpen && shownAt === undefined && sight.now() - blankSince > AWAY_MS * CLOCKS + READY_MS)
            broken(`${person} waits for the session of ${runId} without end`)
      },
      overdue: ({ plan, workerId }) => {
        if (sight.hostile || workerId === undefined || !sight.isClear(plan.id)) return
        for (const seat of sight.seats) {
          const { runId, person, isOpen, openedAt, shownAt } = seat
          if (!isOpen || sight.run(runId)?.sandbox.workerId !== workerId) continue
          if (shownAt === undefined && sight.hostIsAwake() && sight.now() - openedAt > READY_MS)
            broken(`${person} waits for the session of ${runId}, and its worker is there`)
          if (shownAt === undefined || sight.now() - shownAt < MOMENT_MS) continue
          const boot = [...sight.boots].find((one) => one.worker === plan.id && one.runId === runId)
          const isTrue = boot?.stage === 'booted' && seat.shown === boot.printed
          if (isTrue || sight.now() - (boot?.printedAt ?? 0) < MOMENT_MS) blindSince.delete(seat)
          else if (!blindSince.has(seat)) blindSince.set(seat, sight.now())
          else if (sight.now() - (blindSince.get(seat) ?? 0) > MOMENT_MS)
            broken(`${person} does not see the session of ${runId}`, {
              stage: boot?.stage,
              shown: seat.shown,
              printed: boot?.printed,
            })
        }
      },
    }
  },
}

const holderOnly: Law = {
  number: 'S7',
  sentence:
    'a session’s credentials go to the worker that holds its sandbox, the agent’s alone, and nowhere else',
  watch: (sight, broken) => {
    const shows = (text: string) => text.includes(sight.secret)
    return {
      hostSends: (wire, frame) => {
        if (frame.type !== 'sandbox-boot') return
        const { sandbox } = { sandbox: { workerId: '' }, ...sight.run(frame.runId) }
        if (sandbox.workerId !== sight.registeredAs(wire))
          broken(`${frame.runId} is booted on a worker that does not hold it`, { sandbox })
        const { agent, ...others } = frame.credentials
        if (agent === undefined || Object.keys(others).length > 0)
          broken(`${frame.runId} is booted with`, { others: Object.keys(others), agent: agent !== undefined })
      },
      landed: ({ changes }) => {
        for (const change of changes)
          if (change.is === 'events' ? shows(change.lines.join()) : shows(change.row?.text ?? ''))
            broken(`a credential is on the host's disk`, { is: change.is, key: change.key })
      },
      spooled: ({ plan }, { changes }) => {
        for (const change of changes)
          if (change.is !== 'events' && shows(change.row?.text ?? ''))
            broken(`a credential is on the disk of ${plan.id}`, { is: change.is, key: change.key })
      },
      logged: (text) => void (shows(text) && broken('a credential is in a log', { text: text.slice(0, 80) })),
    }
  },
}

const countedOnce: Law = {
  number: 'S8',
  sentence: 'what people’s sessions cost is counted once',
  watch: (sight, broken) => ({
    landed: ({ changes }) => {
      for (const change of changes) {
        if (change.is !== 'run' || change.row === null) continue
        const { id, costs } = change.row.value
        const counted = sessionTokens(costs)
        const used = sight.usedIn(id) * TOKENS
        if (counted > used && !sight.guessed.has(id) && !sight.hasJumped)
          broken(`run ${id} counts ${counted} tokens, and ${used} were used`, { costs })
      }
    },
  }),
}

/** Of one entry in a simulated session's log. */
export const TOKENS = 10

interface Cost {
  readonly label: string
  readonly inputTokens: number
}

export function sessionTokens(costs: readonly Cost[]): number {
  const own = costs.filter(({ label }) => label.startsWith('attach '))
  return own.reduce((sum, { inputTokens }) => sum + inputTokens, 0)
}

export const sessionLaws: readonly Law[] = [
  watchedOrShort,
  hostLetsGo,
  nothingOutlives,
  oneAtATime,
  keptWhileUsed,
  everybodySees,
  holderOnly,
  countedOnce,
]

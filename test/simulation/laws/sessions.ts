/**
 * Laws about people in sandboxes: no sandbox stays booted without a viewer, nothing outlives the session, and
 * viewers see the true output.
 *
 * The laws observe booted sandboxes on the workers, and viewers through frames and terminals.
 */
import type { SandboxBoot } from '../sandbox-boots.ts'
import type { SimConnection } from '../sim-connection.ts'
import type { TerminalViewer } from '../terminal-viewers.ts'
import type { Law, LawView } from './law.ts'
import { bootName, type HostBoot, HostBoots, ViewerPresence } from './terminal-observers.ts'

/** Grace periods that the host and its workers promise: for a page reload, a worker's reconnect and a boot. */
const HOST_GRACE_MS = 20_000
const WORKER_GRACE_MS = 30_000
const RECONNECT_GRACE_MS = 120_000
const BOOT_MS = 60_000
/** Allows for clocks that run apart and for the interval between checks. */
const TOLERANCE_MS = 4_500
const CLOCK_TOLERANCE = 1.011

const viewedOrEndsSoon: Law = {
  number: 'S1',
  sentence: 'on its worker, a booted sandbox has a viewer or a grace deadline, and the viewers are reported',
  observe: (view, fail) => {
    const presence = new ViewerPresence()
    const bootedOn = (worker: string) =>
      [...view.boots].filter((boot) => boot.worker === worker).map(({ runId }) => runId)
    return {
      onWorkerReceives: ({ worker }, frame) => presence.onWorkerReceives(worker, frame, view.now()),
      onWorkerSends: ({ plan }, _connection, frame) => {
        presence.onWorkerSends(plan.id, frame, view.now())
        const open = presence.count(plan.id)
        if (frame.type === 'heartbeat' && frame.attachSessions !== open)
          fail(`${plan.id} reports ${frame.attachSessions} views`, { open })
      },
      onDisconnected: ({ plan }) => presence.onDisconnected(plan.id, bootedOn(plan.id), view.now()),
      onBootStageChanged: ({ worker, runId, stage }) => {
        if (stage === 'booted') presence.onBootRequested(worker, runId, view.now())
      },
      onTick: () => {
        for (const { worker, runId, stage, process } of view.boots) {
          if (stage !== 'booted' || view.isPausedOrResuming(process) || presence.has(worker, runId)) continue
          const { at = 0, how = 'asked' } = presence.since(worker, runId) ?? {}
          const idleMs = view.now() - at
          if (
            idleMs >
            (how === 'left' ? WORKER_GRACE_MS : RECONNECT_GRACE_MS) * CLOCK_TOLERANCE + TOLERANCE_MS
          )
            fail(`${runId} is booted on ${worker} without a viewer`, { idleMs, how })
        }
      },
    }
  },
}

/** When a person last had the terminal open. */
function lastViewedAt(view: LawView, runId: string): number {
  let at = 0
  for (const viewer of view.viewers)
    if (viewer.runId === runId) at = Math.max(at, viewer.closedAt ?? view.now())
  return at
}

const hostReleasesUnviewed: Law = {
  number: 'S2',
  sentence: 'in the host, a booted sandbox has a viewer or a grace deadline',
  observe: (view, fail) => {
    const hostBoots = new HostBoots()
    return {
      onHostStarting: () => hostBoots.onHostStarting(),
      onHostSends: (connection, frame) => {
        hostBoots.onHostSends(view, connection, frame)
        const boot = frame.type === 'dispatch' ? hostBoots.boots.get(frame.lease.runId) : undefined
        if (frame.type === 'dispatch' && boot !== undefined && !isAbandoned(view, connection, boot))
          fail(`${frame.lease.runId} is dispatched while its sandbox is booted`, {
            worker: connection.worker,
          })
      },
      onHostReceives: (connection, frame) => hostBoots.onHostReceives(view, connection, frame),
      onResponse: ({ operation, runId = '' }, ok) => {
        if (operation === 'release' && ok) hostBoots.onReleased(view, runId)
      },
      onRequest: ({ operation, workerId = '' }) => {
        if (operation === 'revoke') hostBoots.onRevoked(workerId)
      },
      onTick: () => {
        for (const boot of hostBoots.boots.values()) {
          const { runId, workerId, requestedAt: orderedAt, isReady } = boot
          const connection = view.currentConnection(workerId)
          const isAway = connection?.hostOpen !== true || view.worker(workerId) === undefined
          boot.workerAwaySince = isAway ? (boot.workerAwaySince ?? view.now()) : undefined
          boot.unviewedSince = Math.max(boot.unviewedSince, lastViewedAt(view, runId))
          if (isAway || !view.isHostAwake()) boot.unviewedSince = view.now()
          const idleMs = view.now() - (isReady ? boot.unviewedSince : orderedAt)
          if (isAway || !view.isHostAwake()) continue
          if (idleMs > (isReady ? HOST_GRACE_MS : BOOT_MS) * CLOCK_TOLERANCE + TOLERANCE_MS)
            fail(`the host keeps ${runId} booted on ${workerId} without a viewer`, { idleMs, isReady })
        }
      },
    }
  },
}

/**
 * Whether the host gave up the booted sandbox because its worker left during the boot, is away too long, or is
 * enrolled no more. The worker receives `sandbox-release` when it returns; until then another worker may get the run.
 */
function isAbandoned(
  view: LawView,
  to: SimConnection,
  { workerId, isReady, workerAwaySince }: HostBoot,
): boolean {
  if (view.worker(workerId) === undefined) return true
  // Absence is noted at each tick; a connection may have ended since the last one.
  const awaySince =
    view.currentConnection(workerId)?.hostOpen === true ? workerAwaySince : (workerAwaySince ?? view.now())
  if (awaySince === undefined || view.registeredAs(to) === workerId) return false
  return !isReady || (view.now() - awaySince + TOLERANCE_MS) * CLOCK_TOLERANCE > view.graceMsMin
}

/** Time to close a sandbox; a sandbox that is released during its boot takes both times. */
const CLOSE_MS_MAX = 15_000
const BOOT_MS_MAX = 75_000

const noCredentialOutlives: Law = {
  number: 'S3',
  sentence: 'no credentials outlive a session that was released, discarded or left',
  observe: (view, fail) => {
    const doomed = new Map<SandboxBoot, number>()
    const doom = (worker: string, runId: string) => {
      for (const boot of view.boots)
        if (boot.worker === worker && boot.runId === runId && !doomed.has(boot)) doomed.set(boot, view.now())
    }
    return {
      onWorkerReceives: ({ worker }, frame) => {
        if (frame.type === 'sandbox-release' || frame.type === 'discard') doom(worker, frame.runId)
      },
      onBootStageChanged: (boot) => {
        if (boot.stage === 'closing') doomed.set(boot, view.now())
      },
      onBootGone: (boot) => void doomed.delete(boot),
      onTick: () => {
        for (const boot of view.boots) if (boot.isOver && !doomed.has(boot)) doomed.set(boot, view.now())
        for (const [boot, at] of doomed) {
          if (view.isPausedOrResuming(boot.process)) continue
          const ms = view.now() - at
          const most =
            boot.stage === 'closing' ? CLOSE_MS_MAX : boot.stage === 'booting' ? BOOT_MS_MAX : TOLERANCE_MS
          if (ms > most + TOLERANCE_MS) fail(`${boot.runId} is still ${boot.stage} on ${boot.worker}`, { ms })
        }
      },
    }
  },
}

const releaseReachesHolder: Law = {
  number: 'S10',
  sentence:
    'a release is sent to the worker that has the sandbox booted, also when an earlier host booted it',
  observe: (view, fail) => {
    /** Runs for which this host has sent a release and no boot order since. */
    const released = new Set<string>()
    /** By run: when a person was told that it is released. */
    const promised = new Map<string, number>()
    const isReachable = (boot: SandboxBoot): boolean => {
      const { workerId = '' } = view.run(boot.runId)?.sandbox ?? {}
      const connection = view.currentConnection(workerId)
      return (
        connection?.hostOpen === true &&
        view.registeredAs(connection) === workerId &&
        connection.worker === boot.worker
      )
    }
    return {
      onHostStarting: () => {
        released.clear()
        promised.clear()
      },
      onHostSends: (_connection, frame) => {
        if (frame.type !== 'sandbox-release' && frame.type !== 'sandbox-boot') return
        promised.delete(frame.runId)
        if (frame.type === 'sandbox-release') released.add(frame.runId)
        else released.delete(frame.runId)
      },
      onResponse: ({ operation, runId = '' }, ok) => {
        if (operation === 'release' && ok && !released.has(runId)) promised.set(runId, view.now())
      },
      onTick: () => {
        for (const boot of view.isHostAwake() ? view.boots : []) {
          const at = promised.get(boot.runId) ?? view.now()
          if (view.now() - at > TOLERANCE_MS && boot.stage !== 'closing' && isReachable(boot))
            fail(`${boot.runId} was released, but ${boot.worker} does not receive it`, { stage: boot.stage })
        }
      },
    }
  },
}

const oneBootAtATime: Law = {
  number: 'S4',
  sentence: 'a sandbox is booted once, and no execution or discard of its run happens meanwhile',
  observe: (view, fail) => {
    const bootOf = (worker: string, runId: string, process: object) =>
      [...view.boots].find(
        (boot) => boot.worker === worker && boot.runId === runId && boot.process === process,
      )
    return {
      onBootStarted: (boot) => {
        for (const earlier of view.boots)
          if (earlier !== boot && earlier.runId === boot.runId && earlier.process === boot.process)
            fail(`${boot.runId} is booted twice on ${boot.worker}`)
        for (const execution of view.executions)
          if (execution.runId === boot.runId && execution.process === boot.process)
            fail(`${boot.runId} is booted and executed`, { leaseId: execution.leaseId })
      },
      onExecutionStarted: ({ worker, runId, leaseId, process }) => {
        if (bootOf(worker, runId, process) !== undefined)
          fail(`${runId} is executed while its sandbox is booted`, { worker, leaseId })
      },
      onSandboxDiscarded: ({ plan, process }, runId) => {
        if (process !== undefined && bootOf(plan.id, runId, process) !== undefined)
          fail(`the sandbox of ${runId} is discarded while it is booted`, { worker: plan.id })
      },
    }
  },
}

/** Interval between two searches for reclaimable sandboxes. */
const RECLAIM_EVERY_MS = 5 * 60_000

const noReclaimWhileBooted: Law = {
  number: 'S5',
  sentence: 'a sandbox is reclaimed only after it is closed, and its reclaiming is never forgotten',
  observe: (view, fail) => {
    const since = new Map<string, { readonly at: number; readonly process: object | undefined }>()
    return {
      onReclaim: ({ plan, process }, isClaimed) => {
        for (const { worker, runId, process: own } of view.boots)
          if (worker === plan.id && own === process && !isClaimed(runId))
            fail(`${runId} is booted on ${worker} but may be reclaimed`)
      },
      onReclaimableChecked: ({ plan, process }, runIds) => {
        const all = new Set(runIds.map((runId) => bootName(plan.id, runId)))
        const isAsleep = process === undefined || view.isPausedOrResuming(process)
        for (const name of since.keys())
          if (name.startsWith(`${plan.id} `) && (!all.has(name) || isAsleep)) since.delete(name)
        for (const name of isAsleep ? [] : all) {
          const known = since.get(name)
          if (known?.process !== process) since.set(name, { at: view.now(), process })
          else if (known !== undefined && view.now() - known.at > RECLAIM_EVERY_MS * CLOCK_TOLERANCE + 30_000)
            fail(`the sandbox ${name} should have been reclaimed`, { ms: view.now() - known.at })
        }
      },
    }
  },
}

/** Time within which output and the end of a session must reach the viewers. */
const OUTPUT_MS_MAX = 10_000
/** By then the session is ready, or its viewers received an error. */
const READY_MS_MAX = 75_000

const viewersSeeEverything: Law = {
  number: 'S6',
  sentence: 'every viewer sees all output of a session exactly once and without waiting',
  observe: (view, fail) => {
    const blindSince = new WeakMap<TerminalViewer, number>()
    /** A worker that does not come back has no time to draw a screen either. */
    const isAway = (runId: string) =>
      view.currentConnection(view.run(runId)?.sandbox.workerId ?? '')?.hostOpen !== true
    return {
      onTick: () => {
        const isJudged = view.isHostAwake() && !view.hasHostileLink
        for (const { runId, person, isOpen, screenShownAt: shownAt, blankSince } of isJudged
          ? view.viewers
          : [])
          if (
            isOpen &&
            shownAt === undefined &&
            view.now() - blankSince >
              RECONNECT_GRACE_MS * CLOCK_TOLERANCE + (isAway(runId) ? TOLERANCE_MS : READY_MS_MAX)
          )
            fail(`${person} waits too long for the session of ${runId}`)
      },
      onReclaimableChecked: ({ plan, workerId }) => {
        if (view.hasHostileLink || workerId === undefined || !view.isLinkSteady(plan.id)) return
        for (const viewer of view.viewers) {
          const { runId, person, isOpen, openedAt, screenShownAt: shownAt } = viewer
          if (!isOpen || view.run(runId)?.sandbox.workerId !== workerId) continue
          if (shownAt === undefined && view.isHostAwake() && view.now() - openedAt > READY_MS_MAX)
            fail(`${person} waits for the session of ${runId} although its worker is online`)
          if (shownAt === undefined || view.now() - shownAt < OUTPUT_MS_MAX) continue
          const boot = [...view.boots].find((each) => each.worker === plan.id && each.runId === runId)
          const isTrue = boot?.stage === 'booted' && viewer.screen === boot.printed
          if (isTrue || view.now() - (boot?.printedAt ?? 0) < OUTPUT_MS_MAX) blindSince.delete(viewer)
          else if (!blindSince.has(viewer)) blindSince.set(viewer, view.now())
          else if (view.now() - (blindSince.get(viewer) ?? 0) > OUTPUT_MS_MAX)
            fail(`${person} does not see the session of ${runId}`, {
              stage: boot?.stage,
              shown: viewer.screen,
              printed: boot?.printed,
            })
        }
      },
    }
  },
}

const credentialsGoToHolder: Law = {
  number: 'S7',
  sentence: 'a session’s worker receives the agent’s credential and no other; no one else receives it',
  observe: (view, fail) => {
    const shows = (text: string) => text.includes(view.secret)
    return {
      onHostSends: (connection, frame) => {
        if (frame.type !== 'sandbox-boot') return
        const { sandbox } = { sandbox: { workerId: '' }, ...view.run(frame.runId) }
        if (sandbox.workerId !== view.registeredAs(connection))
          fail(`${frame.runId} is booted on a worker that does not hold it`, { sandbox })
        const { agent, ...others } = frame.credentials
        if (agent === undefined || Object.keys(others).length > 0)
          fail(`${frame.runId} is booted with wrong credentials`, {
            others: Object.keys(others),
            agent: agent !== undefined,
          })
      },
      onCommitted: ({ changes }) => {
        for (const change of changes)
          if (change.is === 'events' ? shows(change.lines.join()) : shows(change.row?.text ?? ''))
            fail(`a credential is on the host's disk`, { is: change.is, key: change.key })
      },
      onWorkerCommitted: ({ plan }, { changes }) => {
        for (const change of changes)
          if (change.is !== 'events' && shows(change.row?.text ?? ''))
            fail(`a credential is on the disk of ${plan.id}`, { is: change.is, key: change.key })
      },
      onLog: (text) => void (shows(text) && fail('a credential is in a log', { text: text.slice(0, 80) })),
    }
  },
}

const usageCountedOnce: Law = {
  number: 'S8',
  sentence: 'the costs of people’s sessions are counted once',
  observe: (view, fail) => ({
    onCommitted: ({ changes }) => {
      for (const change of changes) {
        if (change.is !== 'run' || change.row === null) continue
        const { id, costs } = change.row.value
        const counted = sessionTokens(costs)
        const used = view.countUsageOf(id) * TOKENS_PER_ENTRY
        if (counted > used && !view.approximatedRuns.has(id) && !view.hasWallClockJumped)
          fail(`run ${id} counts ${counted} tokens, but ${used} were used`, { costs })
      }
    },
  }),
}

/** Tokens of one usage entry of a simulated session. */
export const TOKENS_PER_ENTRY = 10

interface LabelledCost {
  readonly label: string
  readonly inputTokens: number
}

export function sessionTokens(costs: readonly LabelledCost[]): number {
  const own = costs.filter(({ label }) => label.startsWith('attach '))
  return own.reduce((sum, { inputTokens }) => sum + inputTokens, 0)
}

export const sessionLaws: readonly Law[] = [
  viewedOrEndsSoon,
  hostReleasesUnviewed,
  noCredentialOutlives,
  releaseReachesHolder,
  oneBootAtATime,
  noReclaimWhileBooted,
  viewersSeeEverything,
  credentialsGoToHolder,
  usageCountedOnce,
]

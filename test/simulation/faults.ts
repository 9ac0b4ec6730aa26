/**
 * Applies each fault of a plan to the world.
 *
 * A fault that waits for a lease state hits the worker of the first lease that enters the state. The other faults
 * choose their target by the plan's fraction. Every effect of a fault ends before the calm part begins.
 */
import { CANCEL_ANSWER_MS } from '../../protocol/limits.ts'
import { isDamaging } from './disk-damage.ts'
import type { LiveLease } from './laws/law.ts'
import { type CommitPoint, type PlannedFault, type PlannedFaultKind, randomFor } from './plan.ts'
import { scheduleReportingCrashes } from './reporting-crashes.ts'
import { restoreSettings } from './settings-changes.ts'
import type { SimWorker } from './sim-worker.ts'
import { stateOf, type World } from './world.ts'

/** A fault within this time after a lease entered a state mostly finds the lease still in it. */
const REACTION_MS = 40
/** The same for states in which the worker is away and may be about to return. */
const REACTION_MS_AWAY = 4_000
/** Share of a slow or hostile period during which the machine cannot be reached at all. */
const SILENT_SHARE = 0.7
/** Upper bound for how long the host takes to write a received file. */
const FILE_WRITE_MS = 4
/** A person who cancelled a run may discard it while its processes are still dying. */
const DISCARD_DELAY_MS_MAX = 20_000
/** Share of the host's crashes during which a host of another installation answers in its place. */
const FOREIGN_HOST_SHARE = 0.3
/** How long the machines of a token race stay: each costs a seed as much as any other. */
const RACER_MS_MIN = 60_000
const RACER_MS = 5 * 60_000
/** A wall clock jumps by minutes; above this strength it is lost, and off by weeks. */
const LOST_CLOCK_SIZE = 0.75
const JUMP_MS = 2 * 20 * 60_000
const LOST_JUMP_MS = 2 * 40 * 24 * 3_600_000
/** In one of so many seeds another host takes over while the present one is paused. */
const TAKEN_OVER_OF = 4
const KILLED_PUBLISHERS_SHARE = 0.4
const PUBLISHING_MS = 12_000
const KILLED_MS_MAX = 8 * 60_000
/** In one of so many seeds the lines lose reports of costs. */
const LOSING_OF = 7
const LOST_SHARE = 0.7
const LOSING_MS = 2_000
/** A pause longer than this exceeds the wait for a dispatch's answer. */
const NOTICEABLE_MS = 4_000

interface FaultContext {
  readonly world: World
  readonly fault: PlannedFault
  /** The worker that the fault hits; undefined when no worker exists. */
  readonly worker: SimWorker | undefined
  /** The lease that the fault waited for. */
  readonly lease: LiveLease | undefined
  /** Duration of the fault, cut off at the end of the faulty part. */
  readonly ms: number
}

export function scheduleFaults(world: World): void {
  for (const fault of world.plan.faults) {
    world.time.at(fault.at, () => {
      if (fault.leaseState === undefined) applyFault(world, fault, undefined)
      else awaitLeaseState(world, fault)
    })
  }
  killPublishers(world)
  if (world.plan.seed % LOSING_OF === 3) loseSettlements(world)
  if (isDamaging(world.plan.seed)) scheduleReportingCrashes(world)
}

/** Kills some of the daemons that publish again, mostly for longer than a lease lives. */
function killPublishers(world: World): void {
  const random = randomFor(world.plan.seed, 'publishers')
  world.onPublishingAgain = (worker) => {
    if (!random.chance(KILLED_PUBLISHERS_SHARE)) return
    const [afterMs, downMs] = [random.fraction() * PUBLISHING_MS, random.fraction() * KILLED_MS_MAX]
    world.time.in(afterMs, () => {
      if (world.time.now >= world.plan.faultsEndMs || worker?.isOn !== true) return
      worker.crash(true)
      world.time.in(downMs, () => worker.switchOn())
    })
  }
}

/** Loses some of the reports of costs whose lease has ended, or the answers to them, on a connection that stands. */
function loseSettlements(world: World): void {
  const random = randomFor(world.plan.seed, 'settlements')
  world.onSettling = (worker) => {
    const link = world.links.get(worker)
    if (link === undefined || world.time.now >= world.plan.faultsEndMs || !random.chance(LOST_SHARE)) return
    world.note(`the line of ${worker} loses what settles costs`)
    world.countOutcome('settlements disturbed')
    world.view.hasHostileLink = true
    Object.assign(link, { hostileUntil: world.time.now + LOSING_MS, hostileShare: 1, inventsFrames: false })
  }
}

/** Removes every fault and switches every machine on. */
export function endFaults(world: World): void {
  world.onLeaseStateChanged = () => {}
  world.onHostReceives = () => {}
  world.onPublishingAgain = () => {}
  world.onSettling = () => {}
  world.onReportStored = () => {}
  for (const link of world.links.values()) {
    link.silentToHostUntil = 0
    link.silentToWorkerUntil = 0
    link.slowUntil = 0
    link.hostileUntil = 0
  }
  Object.assign(world.drive, { full: false, broken: false, flushMsMax: world.plan.flushMs })
  world.foreignHost.until = Number.NEGATIVE_INFINITY
  restoreSettings(world)
  world.host.cancelCrashTrigger()
  world.host.onDriveChanged()
  world.host.boot()
  for (const worker of world.workers.values()) {
    worker.endFaults()
    worker.switchOn()
  }
}

function awaitLeaseState(world: World, fault: PlannedFault): void {
  const before = world.onLeaseStateChanged
  let done = false
  const away = fault.leaseState === 'unconfirmed' || fault.leaseState === 'adrift'
  const delay = randomFor(world.plan.seed, fault.id).fraction() * (away ? REACTION_MS_AWAY : REACTION_MS)
  world.onLeaseStateChanged = (lease) => {
    before(lease)
    if (done || stateOf(lease) !== fault.leaseState) return
    done = true
    // The shortest-lived state lasts a few round trips, so half of the faults apply at once.
    world.time.in(fault.size < 0.5 ? 0 : delay, () => applyFault(world, fault, lease))
  }
}

function applyFault(world: World, fault: PlannedFault, lease: LiveLease | undefined): void {
  if (world.time.now >= world.plan.faultsEndMs) return
  const leaseWorker = lease === undefined ? undefined : world.workerOf(lease)
  const all = [...world.workers.values()].filter(({ isGone }) => !isGone)
  const worker = leaseWorker ?? all[Math.floor(fault.target * all.length)]
  const ms = Math.max(0, Math.min(fault.ms, world.plan.faultsEndMs - 1_000 - world.time.now))
  const found = WORKER_TARGETED.has(fault.kind)
    ? world.leasesOf(worker?.workerId ?? 'nobody')
    : world.leasesOf()
  if (worker !== undefined) world.reportFault(worker, fault.kind)
  if (fault.damages === true) world.host.damageBeforeStart(randomFor(world.plan.seed, `damage ${fault.id}`))
  const hadEffect = FAULT_HANDLERS[fault.kind]({ world, fault, worker, lease, ms })
  world.note(`${fault.id} ${fault.kind} ${worker?.plan.id ?? ''}${hadEffect ? '' : ' (no effect)'}`)
  if (hadEffect) world.countEncounter(fault.kind, found)
}

/** Each handler returns whether the fault had any effect. */
const FAULT_HANDLERS: Readonly<Record<PlannedFaultKind, (context: FaultContext) => boolean>> = {
  'host crash': ({ world, fault, ms }) => {
    if (world.host.process === undefined) return false
    const quiet = fault.size > 0.8
    world.view.isDisturbed ||= quiet
    const downMs = Math.min(ms, 300_000)
    const isReplaced = randomFor(world.plan.seed, `foreign ${fault.id}`).chance(FOREIGN_HOST_SHARE)
    if (isReplaced) world.foreignHost.until = world.time.now + downMs
    world.host.crash(downMs, quiet ? 'power' : 'crash')
    return true
  },
  'host crash before flush': (context) => crashAtCommit(context, 'before flush'),
  'host crash after flush': (context) => crashAtCommit(context, 'after flush'),
  'host stop': ({ world, ms }) => {
    if (world.host.hostApi === undefined) return false
    world.host.stop(ms)
    return true
  },
  'host pause': ({ world, fault, ms }) => {
    const { process } = world.host
    if (process === undefined) return false
    world.view.isDisturbed = true
    process.pausedUntil = Math.max(process.pausedUntil, world.time.now + ms)
    if (world.plan.seed % TAKEN_OVER_OF === 1 && ms > NOTICEABLE_MS)
      world.time.in(fault.size * ms, () => takeOver(world))
    return true
  },
  'host wall jump': ({ world, fault }) => {
    world.view.hasHostClockJumped = true
    if (fault.size < LOST_CLOCK_SIZE) world.host.jumpWallClock((fault.size / LOST_CLOCK_SIZE - 0.5) * JUMP_MS)
    else world.host.loseWallClock()
    return true
  },
  'disk full': ({ world, ms }) => {
    if (world.drive.full || world.drive.broken) return false
    world.drive.full = true
    world.view.isDisturbed = true
    world.host.onDriveChanged()
    world.time.in(ms, () => {
      world.drive.full = false
      world.host.onDriveChanged()
    })
    return true
  },
  'disk slow': ({ world, fault, ms }) => {
    world.drive.flushMsMax = 100 + fault.size * 6_000
    world.view.isDisturbed = true
    world.time.in(ms, () => {
      world.drive.flushMsMax = world.plan.flushMs
    })
    return true
  },
  'disk broken': ({ world, ms }) => {
    if (world.drive.broken || world.host.process === undefined) return false
    world.drive.broken = true
    world.host.onDriveChanged()
    world.time.in(Math.min(ms, 60_000), () => {
      world.drive.broken = false
      world.host.boot()
    })
    return true
  },
  'worker crash': ({ world, fault, worker, ms }) => {
    if (worker?.isOn !== true) return false
    worker.crash(fault.size > 0.6)
    world.time.in(ms, () => worker.switchOn())
    return true
  },
  'worker crash before flush': (context) => workerCrashAtCommit(context, 'before flush'),
  'worker crash after flush': (context) => workerCrashAtCommit(context, 'after flush'),
  'worker stop': ({ fault, worker, ms }) =>
    worker?.stop(
      // In a third of the stops the host that started the worker ends, too.
      (fault.size * 1_000) % 3 < 1 ? 'hand back' : 'drain',
      fault.size < 0.5 ? fault.size * 20_000 : fault.size * 600_000,
      ms,
    ) === true,
  'worker disk full': ({ world, worker, ms }) => {
    world.view.isDisturbed = true
    return worker?.impairDisk('full', ms) === true
  },
  'worker disk slow': ({ world, fault, worker, ms }) => {
    world.view.isDisturbed = true
    const link = linkOf(world, worker)
    // A machine that swaps: it returns with many frames to send, and its disk is still slow.
    if (fault.size > 0.5 && link !== undefined) {
      link.silentToHostUntil = Math.max(link.silentToHostUntil, world.time.now + ms * SILENT_SHARE)
      link.silentToWorkerUntil = link.silentToHostUntil
    }
    return worker?.impairDisk('slow', ms) === true
  },
  'worker disk broken': ({ worker, ms }) => worker?.impairDisk('broken', Math.min(ms, 60_000)) === true,
  'worker pause': ({ world, worker, ms }) => {
    if (worker?.process === undefined) return false
    world.view.isDisturbed = true
    worker.process.pausedUntil = Math.max(worker.process.pausedUntil, world.time.now + ms)
    return true
  },
  'worker wall jump': ({ world, worker, fault }) => {
    if (worker === undefined) return false
    world.view.hasWallClockJumped = true
    worker.jumpWallClock((fault.size - 0.5) * (fault.size < LOST_CLOCK_SIZE ? JUMP_MS : LOST_JUMP_MS))
    return true
  },
  break: ({ world, fault, worker }) => {
    const random = randomFor(world.plan.seed, `break ${fault.id}`)
    const drawDelay = () =>
      random.chance(0.3) ? undefined : random.chance(0.7) ? 20 : random.fraction() * 20_000
    const [hostMs, workerMs] = [drawDelay(), drawDelay()]
    if (worker?.connection === undefined) return false
    if ([hostMs, workerMs].some((ms) => ms === undefined || ms > NOTICEABLE_MS)) world.view.isDisturbed = true
    worker.connection.break(random.fraction(), random.fraction(), hostMs, workerMs)
    return true
  },
  silence: ({ world, fault, worker, ms }) => {
    const link = linkOf(world, worker)
    if (link === undefined) return false
    world.view.isDisturbed ||= ms > NOTICEABLE_MS
    if (fault.size < 0.7) link.silentToHostUntil = world.time.now + ms
    if (fault.size > 0.3) link.silentToWorkerUntil = world.time.now + ms
    return true
  },
  'slow line': ({ world, fault, worker, ms }) => {
    const link = linkOf(world, worker)
    if (link === undefined) return false
    world.view.isDisturbed = true
    link.slowUntil = world.time.now + ms
    link.slowMsMax = 200 + fault.size * 20_000
    return true
  },
  'second socket': ({ world, worker }) => {
    if (worker?.isOn !== true || worker.connection === undefined) return false
    world.view.isDisturbed = true
    worker.connectWithCopiedCredential()
    return true
  },
  'hostile line': ({ world, fault, worker, ms }) => {
    const link = linkOf(world, worker)
    if (link === undefined) return false
    world.view.hasHostileLink = true
    link.hostileUntil = world.time.now + ms
    // First nothing gets through, so that the outbox overflows and ranges are lost.
    if (fault.size > 0.5)
      link.silentToHostUntil = Math.max(link.silentToHostUntil, world.time.now + ms * SILENT_SHARE)
    link.hostileShare = fault.size * 0.3
    link.inventsFrames = fault.target > 0.7
    return true
  },
  'foreign claim': ({ world, worker: owner, lease }) => {
    const candidates = [...world.workers.values()].filter(
      // A new worker is registered a moment before it has stored its id; its own leases would pass for foreign ones.
      // A worker that sleeps sends nothing.
      (each) =>
        each.isRegistered &&
        each.workerId !== undefined &&
        (each.process?.pausedUntil ?? 0) <= world.time.now &&
        (lease === undefined || each !== owner),
    )
    const worker = candidates[0]
    if (worker === undefined) return false
    const foreign = world
      .leasesOf()
      .filter(({ workerId }) => workerId !== worker.workerId)
      .map(({ id, runId }) => ({ id, runId, nextSeq: world.view.watermarkOf(id).mark + 1 }))
    world.reportFault(worker, 'foreign claim')
    worker.reportForeignLeases(foreign)
    return foreign.length > 0
  },
  'false pull': ({ world, fault, worker, ms }) => {
    const urls = [
      'file:///etc/passwd',
      world.codehost.openForeignPull(),
      world.codehost.unmadePull(),
      'https://code.example/o/other/pull/1',
    ]
    const hadEffect = worker?.reportFalsePull(urls[Math.floor(fault.size * urls.length)] ?? '', ms) === true
    // The worker lies and vanishes, so that its lease is lost.
    if (hadEffect && fault.target < 0.7)
      world.time.in(2_000, () => {
        if (world.time.now >= world.plan.faultsEndMs || worker?.isOn !== true) return
        worker.crash(true)
        world.time.in(ms, () => worker.switchOn())
      })
    return hadEffect
  },
  cancel: (context) => {
    const { world, fault } = context
    const runId = runFor(context, ['queued', 'preparing', 'running', 'finalizing'])
    if (runId === undefined) return false
    world.callHost({ operation: 'cancel', runId }, (hostApi) => hostApi.cancelRun(runId))
    const soonMs = CANCEL_ANSWER_MS + fault.target * DISCARD_DELAY_MS_MAX
    if (fault.size > 0.3) world.time.in(soonMs, () => discardCancelled(world, runId))
    return true
  },
  retry: (context) => {
    const { world } = context
    const runId = runFor(context, ['completed', 'failed', 'cancelled'])
    if (runId === undefined) return false
    world.callHost({ operation: 'retry', runId }, (hostApi) => hostApi.retryRun(runId))
    return true
  },
  discard: (context) => {
    const { world } = context
    const runId = runFor(context, ['completed', 'failed', 'cancelled', 'running'])
    if (runId === undefined) return false
    world.callHost({ operation: 'discard', runId }, (hostApi) => hostApi.discardRun(runId))
    return true
  },
  drain: ({ world, worker }) =>
    withWorkerId(worker, (workerId) => {
      world.callHost({ operation: 'drain', workerId }, (hostApi) => hostApi.drainWorker(workerId))
    }),
  enable: ({ world, worker }) =>
    withWorkerId(worker, (workerId) => {
      world.callHost({ operation: 'enable', workerId }, (hostApi) => hostApi.enableWorker(workerId))
    }),
  revoke: ({ world, fault, worker, ms }) =>
    withWorkerId(worker, (workerId) => {
      const revoke = () => {
        world.callHost({ operation: 'revoke', workerId }, (hostApi) => hostApi.revokeWorker(workerId))
        world.time.in(ms, () => worker?.enrollAgain())
      }
      if (fault.leaseState !== undefined || fault.size < 0.3) revoke()
      else onNextFileWrite(world, worker, () => world.time.in(fault.size * FILE_WRITE_MS, revoke))
    }),
  'own drain': ({ world, worker }) =>
    withWorkerId(worker, (workerId) => {
      const secret = worker?.secret ?? ''
      world.callHost({ operation: 'admit', workerId, genuine: true }, (hostApi) =>
        hostApi.admitWorker(workerId, secret),
      )
      world.callHost({ operation: 'admit', workerId, genuine: false }, (hostApi) =>
        hostApi.admitWorker(workerId, 'wc-wrong'),
      )
      world.callHost({ operation: 'own drain', workerId }, (hostApi) =>
        hostApi.changeWorkerState(workerId, 'draining'),
      )
    }),
  'own enable': ({ world, worker }) =>
    withWorkerId(worker, (workerId) => {
      world.callHost({ operation: 'own enable', workerId }, (hostApi) =>
        hostApi.changeWorkerState(workerId, 'active'),
      )
    }),
  'token race': ({ world, fault }) => {
    const random = randomFor(world.plan.seed, `race ${fault.id}`)
    const model = world.plan.workers[0]
    if (model === undefined || world.host.hostApi === undefined) return false
    const racers = ['a', 'b'].map((suffix) =>
      world.addWorker({ ...model, id: `${fault.id}${suffix}`, at: Number.POSITIVE_INFINITY }),
    )
    for (const racer of racers)
      world.time.in(RACER_MS_MIN + random.fraction() * RACER_MS, () => racer.remove())
    world.callHost({ operation: 'token' }, (hostApi) => {
      const minted = hostApi.mintPairingToken()
      for (const racer of minted.ok ? racers : []) {
        world.time.in(random.fraction() * 30, () => {
          racer.takeToken(minted.ok ? minted.value.token : '')
          racer.switchOn()
        })
      }
      return minted
    })
    return true
  },
}

const WORKER_TARGETED: ReadonlySet<PlannedFaultKind> = new Set([
  'worker crash',
  'worker crash before flush',
  'worker crash after flush',
  'worker stop',
  'worker disk full',
  'worker disk slow',
  'worker disk broken',
  'worker pause',
  'worker wall jump',
  'break',
  'silence',
  'slow line',
  'second socket',
  'hostile line',
  'false pull',
  'drain',
  'enable',
  'revoke',
  'own drain',
  'own enable',
])

/** The views of people hang at the old host, so their pages connect to the new one. */
function takeOver(world: World): void {
  if (world.time.now >= world.plan.faultsEndMs || !world.host.takeOver()) return
  world.note('another host takes over')
  world.countOutcome('hosts taken over')
  for (const seat of world.view.viewers) seat.close()
}

function crashAtCommit({ world, fault, ms }: FaultContext, point: CommitPoint): boolean {
  if (world.host.process === undefined) return false
  const count = 1 + Math.floor(fault.size * fault.size * 12)
  world.host.crashAtCommit(count, point, () => {
    world.note(`${fault.id} happens ${point}`)
    world.host.crash(Math.min(ms, 300_000))
  })
  return true
}

function workerCrashAtCommit({ world, fault, worker, ms }: FaultContext, point: CommitPoint): boolean {
  if (worker === undefined) return false
  const count = 1 + Math.floor(fault.size * fault.size * 12)
  return worker.crashAtCommit(count, point, () => {
    world.note(`${fault.id} happens ${point}`)
    worker.crash(fault.size > 0.6)
    world.time.in(ms, () => worker.switchOn())
  })
}

/**
 * Calls `then` when the host receives a frame whose content it writes to a file before applying it. Other events
 * may happen in between.
 */
function onNextFileWrite(world: World, worker: SimWorker | undefined, then: () => void): void {
  const before = world.onHostReceives
  let done = false
  world.onHostReceives = (from, frame) => {
    before(from, frame)
    const isFiled = frame?.type === 'run-artifact' || frame?.type === 'run-usage-snapshot'
    if (done || !isFiled || from !== worker?.plan.id || world.time.now >= world.plan.faultsEndMs) return
    done = true
    then()
  }
}

function discardCancelled(world: World, runId: string): void {
  if (world.time.now < world.plan.faultsEndMs && world.disk.run(runId)?.status === 'cancelled')
    world.callHost({ operation: 'discard', runId }, (hostApi) => hostApi.discardRun(runId))
}

const linkOf = (world: World, worker: SimWorker | undefined) => world.links.get(worker?.plan.id ?? '')

/** The run of the lease that the fault waited for, or a run with one of the statuses. */
function runFor({ world, fault, lease }: FaultContext, statuses: readonly string[]): string | undefined {
  if (lease !== undefined) return lease.runId
  const able = [...world.disk.runs.values()].filter(({ value }) => statuses.includes(value.status))
  return able[Math.floor(fault.target * able.length)]?.value.id
}

function withWorkerId(worker: SimWorker | undefined, run: (workerId: string) => void): boolean {
  const workerId = worker?.workerId
  if (workerId === undefined) return false
  run(workerId)
  return true
}

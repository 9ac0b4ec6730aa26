/**
 * How each fault of a plan happens to the world.
 *
 * A fault that waits for a lease state strikes the worker of the first lease that comes into it; the others strike
 * whom the plan's fraction points at. Whatever a fault does ends before the calm part begins.
 */

import { CANCEL_ANSWER_MS } from '../../protocol/limits.ts'
import type { LiveLease } from './laws/law.ts'
import { CALM, type CommitPoint, diceOf, type Fault, type FaultKind } from './plan.ts'
import type { SimWorker } from './worker.ts'
import { stateOf, type World } from './world.ts'

/** What happens within this of a lease's coming into a state finds it there, mostly. */
const SOON_MS = 40
/** The same for states in which the worker is away, and perhaps on its way back. */
const SOON_AWAY_MS = 4_000
/** Of a slow or hostile time, how much a machine is out of reach. */
const AWAY_SHARE = 0.7
/** While the host puts on disk what has just arrived. */
const FILING_MS = 4
/** Who has cancelled a run may want it gone altogether, while its processes are still dying. */
const RELENTLESS_MS = 20_000
/** Beyond this nobody would have waited for a dispatch's answer. */
const NOTICEABLE_MS = 4_000

interface Strike {
  readonly world: World
  readonly fault: Fault
  /** Whom it strikes; undefined when there is nobody. */
  readonly worker: SimWorker | undefined
  /** The lease that was waited for. */
  readonly lease: LiveLease | undefined
  /** What is left until the calm. */
  readonly ms: number
}

export function inject(world: World): void {
  for (const fault of world.plan.faults) {
    world.time.at(fault.at, () => {
      if (fault.met === undefined) strike(world, fault, undefined)
      else lurk(world, fault)
    })
  }
}

/** Everything is mended, and everybody is there. */
export function calm(world: World): void {
  world.onLeaseMoved = () => {}
  world.onHostHears = () => {}
  for (const line of world.lines.values()) {
    line.silentUpUntil = 0
    line.silentDownUntil = 0
    line.slowUntil = 0
    line.hostileUntil = 0
  }
  Object.assign(world.drive, { full: false, broken: false, flushMsMax: world.plan.flushMs })
  world.host.disarm()
  world.host.driveChanged()
  world.host.boot()
  for (const worker of world.workers.values()) {
    worker.settleDown()
    worker.switchOn()
  }
}

function lurk(world: World, fault: Fault): void {
  const before = world.onLeaseMoved
  let done = false
  const away = fault.met === 'unconfirmed' || fault.met === 'adrift'
  const delay = diceOf(world.plan.seed, fault.id).fraction() * (away ? SOON_AWAY_MS : SOON_MS)
  world.onLeaseMoved = (lease) => {
    before(lease)
    if (done || stateOf(lease) !== fault.met) return
    done = true
    // The shortest-lived state is over in a few round trips, so half of them strike at once.
    world.time.in(fault.size < 0.5 ? 0 : delay, () => strike(world, fault, lease))
  }
}

function strike(world: World, fault: Fault, lease: LiveLease | undefined): void {
  if (world.time.now >= CALM) return
  const met = lease === undefined ? undefined : world.workerOf(lease)
  const all = [...world.workers.values()]
  const worker = met ?? all[Math.floor(fault.target * all.length)]
  const ms = Math.max(0, Math.min(fault.ms, CALM - 1_000 - world.time.now))
  const found = ABOUT_WORKERS.has(fault.kind) ? world.leases(worker?.workerId ?? 'nobody') : world.leases()
  if (worker !== undefined) world.struck(worker, fault.kind)
  const struck = STRIKES[fault.kind]({ world, fault, worker, lease, ms })
  world.note(`${fault.id} ${fault.kind} ${worker?.plan.id ?? ''}${struck ? '' : ' (in vain)'}`)
  if (struck) world.meet(fault.kind, found)
}

/** Each answers whether it could do anything. */
const STRIKES: Readonly<Record<FaultKind, (strike: Strike) => boolean>> = {
  'host crash': ({ world, fault, ms }) => {
    if (world.host.process === undefined) return false
    const quiet = fault.size > 0.8
    world.view.disturbed ||= quiet
    world.host.crash(Math.min(ms, 300_000), quiet ? 'power' : 'crash')
    return true
  },
  'host crash before flush': (strike) => crashAtCommit(strike, 'before flush'),
  'host crash after flush': (strike) => crashAtCommit(strike, 'after flush'),
  'host stop': ({ world, ms }) => {
    if (world.host.hostApi === undefined) return false
    world.host.stop(ms)
    return true
  },
  'host pause': ({ world, ms }) => {
    const { process } = world.host
    if (process === undefined) return false
    world.view.disturbed = true
    process.pausedUntil = Math.max(process.pausedUntil, world.time.now + ms)
    return true
  },
  'host wall jump': ({ world, fault }) => {
    world.host.jump((fault.size - 0.5) * 2 * 1_200_000)
    return true
  },
  'disk full': ({ world, ms }) => {
    if (world.drive.full || world.drive.broken) return false
    world.drive.full = true
    world.view.disturbed = true
    world.host.driveChanged()
    world.time.in(ms, () => {
      world.drive.full = false
      world.host.driveChanged()
    })
    return true
  },
  'disk slow': ({ world, fault, ms }) => {
    world.drive.flushMsMax = 100 + fault.size * 6_000
    world.view.disturbed = true
    world.time.in(ms, () => {
      world.drive.flushMsMax = world.plan.flushMs
    })
    return true
  },
  'disk broken': ({ world, ms }) => {
    if (world.drive.broken || world.host.process === undefined) return false
    world.drive.broken = true
    world.host.driveChanged()
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
  'worker crash before flush': (strike) => workerCrashAtCommit(strike, 'before flush'),
  'worker crash after flush': (strike) => workerCrashAtCommit(strike, 'after flush'),
  'worker stop': ({ fault, worker, ms }) =>
    worker?.stop(fault.size < 0.5 ? fault.size * 20_000 : fault.size * 600_000, ms) === true,
  'worker disk full': ({ world, worker, ms }) => {
    world.view.disturbed = true
    return worker?.spoil('full', ms) === true
  },
  'worker disk slow': ({ world, fault, worker, ms }) => {
    world.view.disturbed = true
    const line = lineOf(world, worker)
    // A machine that swaps: it comes back with much to tell, and a disk that is still slow.
    if (fault.size > 0.5 && line !== undefined) {
      line.silentUpUntil = Math.max(line.silentUpUntil, world.time.now + ms * AWAY_SHARE)
      line.silentDownUntil = line.silentUpUntil
    }
    return worker?.spoil('slow', ms) === true
  },
  'worker disk broken': ({ worker, ms }) => worker?.spoil('broken', Math.min(ms, 60_000)) === true,
  'worker pause': ({ world, worker, ms }) => {
    if (worker?.process === undefined) return false
    world.view.disturbed = true
    worker.process.pausedUntil = Math.max(worker.process.pausedUntil, world.time.now + ms)
    return true
  },
  'worker wall jump': ({ world, worker, fault }) => {
    if (worker === undefined) return false
    world.view.hasJumped = true
    worker.jump((fault.size - 0.5) * 2 * 1_200_000)
    return true
  },
  break: ({ world, fault, worker }) => {
    const dice = diceOf(world.plan.seed, `break ${fault.id}`)
    const ends = () => (dice.random(0.3) ? undefined : dice.random(0.7) ? 20 : dice.fraction() * 20_000)
    const [hostMs, workerMs] = [ends(), ends()]
    if (worker?.wire === undefined) return false
    if ([hostMs, workerMs].some((ms) => ms === undefined || ms > NOTICEABLE_MS)) world.view.disturbed = true
    worker.wire.break(dice.fraction(), dice.fraction(), hostMs, workerMs)
    return true
  },
  silence: ({ world, fault, worker, ms }) => {
    const line = lineOf(world, worker)
    if (line === undefined) return false
    world.view.disturbed ||= ms > NOTICEABLE_MS
    if (fault.size < 0.7) line.silentUpUntil = world.time.now + ms
    if (fault.size > 0.3) line.silentDownUntil = world.time.now + ms
    return true
  },
  'slow line': ({ world, fault, worker, ms }) => {
    const line = lineOf(world, worker)
    if (line === undefined) return false
    world.view.disturbed = true
    line.slowUntil = world.time.now + ms
    line.slowMs = 200 + fault.size * 20_000
    return true
  },
  'second socket': ({ world, worker }) => {
    if (worker?.isOn !== true || worker.wire === undefined) return false
    world.view.disturbed = true
    worker.connectAgain()
    return true
  },
  'hostile line': ({ world, fault, worker, ms }) => {
    const line = lineOf(world, worker)
    if (line === undefined) return false
    world.view.hostile = true
    line.hostileUntil = world.time.now + ms
    // At first nothing gets through, so that there are gaps to be told of, too.
    if (fault.size > 0.5) line.silentUpUntil = Math.max(line.silentUpUntil, world.time.now + ms * AWAY_SHARE)
    line.hostility = fault.size * 0.3
    line.invents = fault.target > 0.7
    return true
  },
  'foreign claim': ({ world, worker: owner, lease }) => {
    const others = [...world.workers.values()].filter(
      (one) => one.isRegistered && (lease === undefined || one !== owner),
    )
    const worker = others[0]
    if (worker === undefined) return false
    const foreign = world
      .leases()
      .filter(({ workerId }) => workerId !== worker.workerId)
      .map(({ id, runId }) => ({ id, runId, next: world.view.markOf(id).mark + 1 }))
    world.struck(worker, 'foreign claim')
    worker.meddle(foreign)
    return foreign.length > 0
  },
  cancel: (strike) => {
    const { world, fault } = strike
    const runId = runFor(strike, ['queued', 'preparing', 'running', 'finalizing'])
    if (runId === undefined) return false
    world.ask({ what: 'cancel', runId }, (hostApi) => hostApi.cancelRun(runId))
    const soonMs = CANCEL_ANSWER_MS + fault.target * RELENTLESS_MS
    if (fault.size > 0.3) world.time.in(soonMs, () => discardCancelled(world, runId))
    return true
  },
  retry: (strike) => {
    const { world } = strike
    const runId = runFor(strike, ['completed', 'failed', 'cancelled'])
    if (runId === undefined) return false
    world.ask({ what: 'retry', runId }, (hostApi) => hostApi.retryRun(runId))
    return true
  },
  discard: (strike) => {
    const { world } = strike
    const runId = runFor(strike, ['completed', 'failed', 'cancelled', 'running'])
    if (runId === undefined) return false
    world.ask({ what: 'discard', runId }, (hostApi) => hostApi.discardRun(runId))
    return true
  },
  drain: ({ world, worker }) =>
    about(worker, (workerId) => {
      world.ask({ what: 'drain', workerId }, (hostApi) => hostApi.drainWorker(workerId))
    }),
  enable: ({ world, worker }) =>
    about(worker, (workerId) => {
      world.ask({ what: 'enable', workerId }, (hostApi) => hostApi.enableWorker(workerId))
    }),
  revoke: ({ world, fault, worker, ms }) =>
    about(worker, (workerId) => {
      const revoke = () => {
        world.ask({ what: 'revoke', workerId }, (hostApi) => hostApi.revokeWorker(workerId))
        world.time.in(ms, () => worker?.comeBack())
      }
      if (fault.met !== undefined || fault.size < 0.3) revoke()
      else whenFiling(world, worker, () => world.time.in(fault.size * FILING_MS, revoke))
    }),
  'own drain': ({ world, worker }) =>
    about(worker, (workerId) => {
      const secret = worker?.secret ?? ''
      world.ask({ what: 'admit', workerId, genuine: true }, (hostApi) =>
        hostApi.admitWorker(workerId, secret),
      )
      world.ask({ what: 'admit', workerId, genuine: false }, (hostApi) =>
        hostApi.admitWorker(workerId, 'wc-wrong'),
      )
      world.ask({ what: 'own drain', workerId }, (hostApi) => hostApi.changeWorkerState(workerId, 'draining'))
    }),
  'own enable': ({ world, worker }) =>
    about(worker, (workerId) => {
      world.ask({ what: 'own enable', workerId }, (hostApi) => hostApi.changeWorkerState(workerId, 'active'))
    }),
  'token race': ({ world, fault }) => {
    const dice = diceOf(world.plan.seed, `race ${fault.id}`)
    const model = world.plan.workers[0]
    if (model === undefined || world.host.hostApi === undefined) return false
    const racers = ['a', 'b'].map((letter) =>
      world.addWorker({ ...model, id: `${fault.id}${letter}`, at: Number.POSITIVE_INFINITY }),
    )
    world.ask({ what: 'token' }, (hostApi) => {
      const minted = hostApi.mintPairingToken()
      for (const racer of minted.ok ? racers : []) {
        world.time.in(dice.fraction() * 30, () => {
          racer.takeToken(minted.ok ? minted.value.token : '')
          racer.switchOn()
        })
      }
      return minted
    })
    return true
  },
}

const ABOUT_WORKERS: ReadonlySet<FaultKind> = new Set([
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
  'drain',
  'enable',
  'revoke',
  'own drain',
  'own enable',
])

function crashAtCommit({ world, fault, ms }: Strike, point: CommitPoint): boolean {
  if (world.host.process === undefined) return false
  const count = 1 + Math.floor(fault.size * fault.size * 12)
  world.host.crashAtCommit(count, point, () => {
    world.note(`${fault.id} strikes ${point}`)
    world.host.crash(Math.min(ms, 300_000))
  })
  return true
}

function workerCrashAtCommit({ world, fault, worker, ms }: Strike, point: CommitPoint): boolean {
  if (worker === undefined) return false
  const count = 1 + Math.floor(fault.size * fault.size * 12)
  return worker.crashAtCommit(count, point, () => {
    world.note(`${fault.id} strikes ${point}`)
    worker.crash(fault.size > 0.6)
    world.time.in(ms, () => worker.switchOn())
  })
}

/** What is written to a file of its own is not applied at once: something may come between. */
function whenFiling(world: World, worker: SimWorker | undefined, then: () => void): void {
  const before = world.onHostHears
  let done = false
  world.onHostHears = (from, frame) => {
    before(from, frame)
    const isFiled = frame?.type === 'run-artifact' || frame?.type === 'run-usage-snapshot'
    if (done || !isFiled || from !== worker?.plan.id || world.time.now >= CALM) return
    done = true
    then()
  }
}

function discardCancelled(world: World, runId: string): void {
  if (world.time.now < CALM && world.disk.run(runId)?.status === 'cancelled')
    world.ask({ what: 'discard', runId }, (hostApi) => hostApi.discardRun(runId))
}

const lineOf = (world: World, worker: SimWorker | undefined) => world.lines.get(worker?.plan.id ?? '')

/** The run of the lease that was waited for, or one of those that are in such a status. */
function runFor({ world, fault, lease }: Strike, statuses: readonly string[]): string | undefined {
  if (lease !== undefined) return lease.runId
  const able = [...world.disk.runs.values()].filter(({ value }) => statuses.includes(value.status))
  return able[Math.floor(fault.target * able.length)]?.value.id
}

function about(worker: SimWorker | undefined, run: (workerId: string) => void): boolean {
  const workerId = worker?.workerId
  if (workerId === undefined) return false
  run(workerId)
  return true
}

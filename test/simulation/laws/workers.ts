/**
 * Laws about workers: which workers receive runs, whose frames count, and how a worker is enrolled and revoked.
 */
import type { ActorSnapshot } from '../../../core/ports/store.ts'
import { FOREIGN_INSTALLATION } from '../foreign-host.ts'
import type { SimConnection } from '../sim-connection.ts'
import { fieldsOf, type Law } from './law.ts'

const durableFirst: Law = {
  number: '2',
  sentence: 'a dispatch frame is sent only for a lease that is on disk',
  observe: (view, fail) => ({
    onHostSends: (connection, frame) => {
      if (frame.type !== 'dispatch') return
      const { id, runId } = frame.lease
      const lease = view.lease(id)
      const workerId = view.registeredAs(connection)
      if (lease === undefined) fail(`lease ${id} is not on disk`, { how: view.howEnded(id) })
      if (lease?.runId !== runId) fail(`lease ${id} is for run ${lease?.runId}, not ${runId}`)
      if (lease?.workerId !== workerId) fail(`lease ${id} is for ${lease?.workerId}, sent to ${workerId}`)
    },
  }),
}

const onlyToActive: Law = {
  number: '7',
  sentence: 'a dispatch goes only to a worker that is active, in memory and on disk, at that moment',
  observe: (view, fail) => {
    /** Requests to the current host process that it did not refuse. */
    const wanted = new Map<string, string>()
    return {
      onHostStarting: () => wanted.clear(),
      onRequest: ({ operation, workerId = '' }) => {
        if (operation === 'drain' || operation === 'own drain') wanted.set(workerId, 'draining')
        if (operation === 'enable' || operation === 'own enable') wanted.set(workerId, 'active')
        if (operation === 'revoke') wanted.set(workerId, 'revoked')
      },
      onResponse: ({ workerId = '' }, ok) => {
        if (!ok) wanted.delete(workerId)
      },
      onHostSends: (connection, frame) => {
        if (frame.type !== 'dispatch') return
        const workerId = view.registeredAs(connection) ?? ''
        const onDisk = view.workerState(workerId)
        const inMemory = wanted.get(workerId) ?? onDisk
        if (onDisk !== 'active' || inMemory !== 'active')
          fail(`${frame.lease.id} goes to ${workerId}`, { onDisk: onDisk ?? 'not enrolled', inMemory })
      },
    }
  },
}

const revokedHasNoEffect: Law = {
  number: '8',
  sentence: 'after a revocation the host accepts no register, applies no frame and admits no worker request',
  observe: (view, fail) => {
    const revoking = new Set<string>()
    return {
      onHostStarting: () => revoking.clear(),
      onRequest: ({ operation, workerId = '' }) => void (operation === 'revoke' && revoking.add(workerId)),
      onResponse: ({ operation, workerId = '', genuine }, ok) => {
        if (operation !== 'admit' || revoking.has(workerId)) return
        const enrolled = view.worker(workerId) !== undefined
        if (ok && !enrolled) fail(`${workerId} is not enrolled but was admitted`)
        if (ok && genuine === false) fail(`a wrong credential of ${workerId} was admitted`)
        // The removal of an ephemeral worker that stayed away may wait for a full disk, as a revocation may; and so may
        // the instant at which it is due.
        const found = view.worker(workerId)
        const isDue = (found?.d?.vacancy ?? Number.POSITIVE_INFINITY) <= view.hostNow()
        const mayBeDue = fieldsOf(found).ephemeral === true && !view.isHostDiskWell()
        if (view.hostDamage.has('worker', workerId)) return
        if (!ok && enrolled && genuine === true && !isDue && !mayBeDue)
          fail(`${workerId} was not admitted with its own credential`)
      },
      onHostSends: (_connection, frame) => {
        if (frame.type === 'registered' && view.worker(frame.workerId) === undefined)
          fail(`${frame.workerId} is registered but not enrolled`)
      },
      onBeforeCommit: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'key-value' || change.collection !== 'mark' || change.row === null) continue
          const lease = view.lease(change.key)
          if (lease === undefined || view.worker(lease.workerId) !== undefined) continue
          const before = view.watermarkOf(change.key).mark
          const { mark } = { mark: 0, ...change.row.value }
          if (mark > before)
            fail(`a frame of the revoked ${lease.workerId} was applied`, { lease, before, mark })
        }
      },
    }
  },
}

const oneConnection: Law = {
  number: '15',
  sentence: 'a worker has one current connection; others receive only their rejection',
  observe: (view, fail) => {
    const left = new Set<SimConnection>()
    return {
      onHostSends: (connection, frame) => {
        if (frame.type === 'rejected') left.add(connection)
        else if (left.has(connection)) fail(`${frame.type} after a rejection`, { worker: connection.worker })
        if (frame.type === 'registered' || frame.type === 'rejected' || frame.type === 'revoked') return
        const workerId = view.registeredAs(connection)
        if (workerId === undefined) fail(`${frame.type} on an unregistered connection`)
        else if (view.currentConnection(workerId) !== connection)
          fail(`${frame.type} on a connection that was replaced`, { workerId })
      },
    }
  },
}

const tokenOnce: Law = {
  number: '18',
  sentence: 'a pairing token enrolls at most once',
  observe: (view, fail) => {
    const enrolled = new Map<string, string>()
    const tokens = new Set<string>()
    const ids = new Set<string>()
    return {
      onHostReceives: (_connection, frame) => {
        if (frame?.type === 'register' && frame.auth.kind === 'pairing') tokens.add(frame.auth.token)
      },
      onCommitted: ({ changes }) => {
        for (const change of changes) {
          if (change.is !== 'snapshot' || change.kind !== 'worker' || change.row === null) continue
          if (joinKeyOf(change.row.value) === undefined) ids.add(change.key)
        }
        if (ids.size > tokens.size) fail(`${ids.size} workers were enrolled with ${tokens.size} tokens`)
      },
      onHostSends: (connection, frame) => {
        if (frame.type !== 'registered' || frame.credential === undefined) return
        const auth = view.registerFrameOf(connection)?.auth
        if (auth?.kind === 'join') return
        if (auth?.kind !== 'pairing') return fail(`${frame.workerId} got a credential without a token`)
        const firstWorker = enrolled.get(auth.token)
        if (firstWorker !== undefined)
          fail('one token enrolled two workers', { first: firstWorker, second: frame.workerId })
        enrolled.set(auth.token, frame.workerId)
      },
    }
  },
}

const joinKeyOf = ({ c }: ActorSnapshot): unknown => (c as { readonly joinKey?: unknown }).joinKey
/** A worker that said that it ends gives its seat back when it is gone. */
const isEnding = ({ c }: ActorSnapshot): boolean =>
  (c as { readonly capabilities?: { readonly ending?: boolean } | null }).capabilities?.ending === true
const isProven = ({ c }: ActorSnapshot | undefined = { v: 0, s: '', c: {} }): boolean =>
  (c as { readonly proven?: unknown }).proven === true

const seatsAndLeaving: Law = {
  number: 'W2',
  sentence: 'a join key never has more workers than seats, and an ephemeral worker leaves without a lease',
  observe: (view, fail) => {
    const joined = new Set<string>()
    const ending = new Set<string>()
    let seats = 0
    const revoking = new Set<string>()
    return {
      onRequest: ({ operation, workerId = '' }) => void (operation === 'revoke' && revoking.add(workerId)),
      onBeforeCommit: ({ changes }) => {
        for (const change of changes) {
          if (change.is === 'key-value' && change.collection === 'join-key')
            seats = { maxWorkers: 0, ...change.row?.value }.maxWorkers
          if (change.is !== 'snapshot' || change.kind !== 'worker') continue
          if (change.row !== null && joinKeyOf(change.row.value) !== undefined) joined.add(change.key)
          if (change.row !== null && isEnding(change.row.value)) ending.add(change.key)
          else ending.delete(change.key)
          if (change.row !== null || !joined.delete(change.key) || revoking.has(change.key)) continue
          const ended = changes.filter((each) => each.is === 'snapshot' && each.row === null)
          const leases = view.leasesOn(change.key).filter(({ id }) => !ended.some(({ key }) => key === id))
          if (isProven(view.worker(change.key)) && leases.length > 0)
            fail(`${change.key} was removed with ${leases.length} leases`)
        }
        // A worker with a damaged record has a key that the host can't check.
        const known = [...joined].filter((id) => !view.hostDamage.has('worker', id))
        const seated = known.filter((id) => !ending.has(id)).length
        if (seated > seats) fail(`${seated} workers have ${seats} seats`)
      },
    }
  },
}

const unauthorizedIsTrue: Law = {
  number: '19',
  sentence: '`unauthorized` is sent only when the enrollment is gone',
  observe: (view, fail) => {
    const revoking = new Set<string>()
    return {
      onHostStarting: () => revoking.clear(),
      onRequest: ({ operation, workerId = '' }) => void (operation === 'revoke' && revoking.add(workerId)),
      onHostSends: (connection, frame) => {
        if (frame.type !== 'rejected' || frame.code !== 'unauthorized') return
        if (frame.installation === FOREIGN_INSTALLATION) return
        const auth = view.registerFrameOf(connection)?.auth
        if (auth?.kind !== 'credential') return
        // Simulated workers only present credentials that the host gave them.
        if (view.worker(auth.workerId) !== undefined && !revoking.has(auth.workerId))
          fail(`${auth.workerId} is enrolled but was rejected as unauthorized`)
      },
    }
  },
}

const credentialKept: Law = {
  number: '30',
  sentence:
    'a worker keeps its credential while its own installation knows it, whatever another host answers',
  observe: (view, fail) => ({
    onCredentialDeleted: (workerId) => {
      if (view.worker(workerId) !== undefined) fail(`${workerId} deleted its credential but is enrolled`)
    },
  }),
}

/** A lease whose dispatch is older may have been released in memory and not yet on disk. */
const DISPATCH_ANSWER_MS_MAX = 9_000
/** How long contradictory requests for one worker may be in progress. */
const CONFLICT_MS = 60_000

const drainCountsAll: Law = {
  number: '24',
  sentence: 'the response to a drain counts every lease whose dispatch was sent before it',
  observe: (view, fail) => {
    /** The connection on which the worker last received or named a lease. */
    const lastNamed = new Map<string, { readonly connection: SimConnection; readonly at: number }>()
    /** Leases that a received frame or a request may already have ended in memory. */
    const ending = new Set<string>()
    const lastOperation = new Map<string, string>()
    /** When somebody last asked for the opposite: drain, enable and drain may share a commit. */
    const enabledAt = new Map<string, number>()
    return {
      onRequest: ({ operation, workerId = '', runId = '' }) => {
        if (operation !== 'admit') lastOperation.set(workerId, operation)
        if (operation.endsWith('enable')) enabledAt.set(workerId, view.now())
        if (operation === 'cancel') for (const { id } of view.leasesOf(runId)) ending.add(id)
      },
      onHostSends: (connection, frame) => {
        if (frame.type === 'dispatch') lastNamed.set(frame.lease.id, { connection, at: view.now() })
      },
      onHostReceives: (connection, frame) => {
        if (frame?.type === 'register' || frame?.type === 'heartbeat') {
          const named = frame.type === 'register' ? frame.activeLeases : frame.leases
          for (const { id } of named) lastNamed.set(id, { connection, at: view.now() })
        }
        if (frame?.type === 'run-complete' || frame?.type === 'dispatch-rejected') ending.add(frame.leaseId)
      },
      onResponse: ({ operation, workerId = '' }, ok, value) => {
        if (operation !== 'own drain' || !ok) return
        const connection = view.currentConnection(workerId)
        const open = view.leasesOn(workerId).filter(({ id, state }) => {
          const known = lastNamed.get(id)
          if (known === undefined || known.connection !== connection || connection?.hostOpen !== true)
            return false
          return !ending.has(id) && (state === 'held' || view.now() - known.at < DISPATCH_ANSWER_MS_MAX)
        })
        const counted = activeRunsIn(value)
        if (counted < open.length) fail(`the response counts only ${counted} leases`, { workerId, open })
        const state = view.workerState(workerId)
        const disputed = view.now() - (enabledAt.get(workerId) ?? Number.NEGATIVE_INFINITY) < CONFLICT_MS
        if (state === 'active' && !disputed && lastOperation.get(workerId)?.endsWith('drain') === true)
          fail('the response came before the drain was on disk', { workerId })
      },
    }
  },
}

const additionsAreIgnored: Law = {
  number: 'W1',
  sentence: 'the host understands every frame of its protocol version, whatever a later worker adds',
  observe: (view, fail) => {
    const seen = new WeakSet<SimConnection>()
    return {
      onHostReceives: (connection) => void seen.add(connection),
      onHostSends: (connection, frame) => {
        // A connection without any frame is rejected with the same code.
        if (view.hasHostileLink || !seen.has(connection)) return
        if (frame.type === 'rejected' && frame.code === 'malformed')
          fail(`${connection.worker}: ${frame.reason}`)
      },
    }
  },
}

/** The number of active runs in the response of the worker-state route. */
function activeRunsIn(value: unknown): number {
  const { worker } = { worker: undefined, ...Object(value) } as {
    worker: { activeRuns?: number } | undefined
  }
  return worker?.activeRuns ?? 0
}

export const workerLaws: readonly Law[] = [
  seatsAndLeaving,
  durableFirst,
  onlyToActive,
  revokedHasNoEffect,
  oneConnection,
  tokenOnce,
  unauthorizedIsTrue,
  credentialKept,
  drainCountsAll,
  additionsAreIgnored,
]

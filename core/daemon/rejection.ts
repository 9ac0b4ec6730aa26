/**
 * Decides what a worker does after the host rejected its registration.
 *
 * A bad pairing token is not retried, but the worker may still have a credential. A rejection that a retry cannot
 * cure ends the worker, so that a person notices. Two rejections only look permanent: a `register` that arrived after
 * the host's timeout, and a host that first accepted this worker and later calls its frames malformed. In the second
 * case finished work may still need delivery, and an update of the host cures it, so the worker retries rarely.
 * A host of another installation cannot end an enrollment: its address or its database is wrong. A worker with a join
 * key enrolls again when its enrollment is gone, but not with a key that was refused. A host of the first form refuses
 * keys that it does not know, so the worker registers once more without them.
 */
import { REGISTERED_TWICE, type RejectionCode } from '../../protocol/frames.ts'
import { WORKER_FIRST_FRAME_MS } from '../../protocol/limits.ts'

export interface RejectionFacts {
  /** The worker registered with a pairing token. */
  readonly withToken: boolean
  /** The worker registered with a join key. */
  readonly withJoinKey: boolean
  readonly hasCredential: boolean
  readonly hasJoinKey: boolean
  /** The worker registered in the first form of the protocol. */
  readonly inFirstForm: boolean
  /** The host had accepted the registration on this connection. */
  readonly registered: boolean
  /** The host had accepted a registration of this process. */
  readonly everRegistered: boolean
  /** Time from dialling to the answer. A connection does not tell how long the registration itself was in transit. */
  readonly afterMs: number
  /** The worker recently gave up a connection that the host may have accepted only now. */
  readonly abandonedConnection: boolean
  /** The installation that enrolled the worker; undefined when its host has never named one. */
  readonly ownInstallation: string | undefined
  /** The installation that the rejection names. */
  readonly rejectedBy: string | undefined
}

export type RejectionVerdict =
  /** `retry`: as after any other lost connection. */
  | { readonly is: 'retry' }
  | { readonly is: 'retry-rarely' }
  /** Register again at once, in the first form. */
  | { readonly is: 'first-form' }
  /** The enrollment is gone: enroll again with the join key. */
  | { readonly is: 'join-again' }
  /** Another installation does not know the worker: keep the credential, and retry as after a lost connection. */
  | { readonly is: 'foreign-host'; readonly detail: string }
  | { readonly is: 'end'; readonly end: RejectionEnd }

export interface RejectionEnd {
  readonly is: 'unauthorized' | 'no-credential' | 'protocol' | 'malformed' | 'replaced'
  readonly detail: string
}

/** An answer after this time means that the registration did not arrive in time. */
const TOO_LATE_MS = WORKER_FIRST_FRAME_MS * 0.9

export function judgeRejection(code: RejectionCode, reason: string, facts: RejectionFacts): RejectionVerdict {
  switch (code) {
    case 'invalid-token':
    case 'expired-token':
      return tokenOrKeyRefused(reason, facts)
    case 'unauthorized':
      return unauthorized(reason, facts)
    case 'protocol':
      return facts.registered
        ? replaced(facts)
        : end('protocol', `the host turned this worker away: ${reason}`)
    case 'malformed':
      return malformed(reason, facts)
  }
}

function tokenOrKeyRefused(reason: string, facts: RejectionFacts): RejectionVerdict {
  if (facts.withJoinKey) return end('no-credential', keyRefused(reason))
  return facts.hasCredential || facts.hasJoinKey
    ? { is: 'retry' }
    : end('no-credential', tokenRefused(reason))
}

/** Only the installation that enrolled the worker can end the enrollment; a restored database knows the worker again. */
function unauthorized(reason: string, facts: RejectionFacts): RejectionVerdict {
  const { ownInstallation, rejectedBy, hasJoinKey } = facts
  if (ownInstallation === undefined || ownInstallation === rejectedBy)
    return hasJoinKey
      ? { is: 'join-again' }
      : end('unauthorized', `the host does not know this worker any more (${reason}); pair it again`)
  return { is: 'foreign-host', detail: foreignHost(ownInstallation, rejectedBy) }
}

/**
 * On a registered connection the version was right, so `protocol` can only mean that a newer connection replaced this
 * one.
 */
function replaced({ abandonedConnection }: RejectionFacts): RejectionVerdict {
  if (abandonedConnection) return { is: 'retry' }
  return end(
    'replaced',
    'another worker uses the same credential; give each its own data directory and pair it',
  )
}

function malformed(
  reason: string,
  { registered, everRegistered, afterMs, inFirstForm, withJoinKey }: RejectionFacts,
): RejectionVerdict {
  if (!registered && afterMs >= TOO_LATE_MS) return { is: 'retry' }
  // The host knows all keys of the frame that it has accepted before.
  if (!registered && reason.endsWith(REGISTERED_TWICE)) return { is: 'retry' }
  // The first form has no join keys.
  if (!registered && !inFirstForm && !withJoinKey) return { is: 'first-form' }
  if (everRegistered) return { is: 'retry-rarely' }
  return end('malformed', `the host does not understand this worker: ${reason}; update the older of the two`)
}

const tokenRefused = (reason: string): string =>
  `the pairing token was refused (${reason}); get a new one from the host (POST /api/workers/pairing-tokens)`

const keyRefused = (reason: string): string =>
  `the join key was refused (${reason}); list the keys on the host (switchyard workers join-keys) and put a good one into --join-key-file`

const foreignHost = (own: string, rejectedBy: string | undefined): string =>
  `the host is ${rejectedBy === undefined ? 'an unnamed installation' : `the installation ${rejectedBy}`}, but this ` +
  `worker was enrolled by ${own}; it keeps its credential and tries again: restore the host's database, correct ` +
  '--host, or pair this worker with the host by a new --token-file'

const end = (is: RejectionEnd['is'], detail: string): RejectionVerdict => ({ is: 'end', end: { is, detail } })

/**
 * Words why a repository can't be read or written, as a queue reason with its cure, and names the kind of the failure.
 *
 * A wrong remote or a refused token stays wrong however often a run starts, so the host keeps the run in its queue.
 */
import type { Refused } from '../../core/result.ts'
import {
  missingCredentialSubject,
  refusedCredentialSubject,
  remoteSubject,
  withCure,
} from '../../core/run/queue-reasons.ts'
import type { FailureKind } from '../../protocol/frames.ts'
import type { GitErrorKind, GitFailure } from './git-errors.ts'
import type { RemoteRepository } from './mirror-cache.ts'

/** A refusal because the configuration of the repository is wrong. */
export function unreadableRemote(
  name: string,
  cure: string,
  kind: 'invalid' | 'unknown' = 'invalid',
): Refused {
  return {
    ok: false,
    refusal: { kind, message: withCure(remoteSubject(name), cure), failure: 'configuration' },
  }
}

const LASTING_KINDS: readonly string[] = ['unauthorized', 'forbidden', 'invalid', 'unknown']
/** A name that does not resolve for minutes is more often misspelled than out of order. */
const UNRESOLVED = /Could not resolve host/

/** Explains why a fetch was refused. */
export function explainUnreadable(
  { name, credentialOf, remote }: RemoteRepository,
  { refusal }: Refused,
  errorKind: GitErrorKind,
): Refused {
  const cure = refusal.message.replace(`fetching ${name}: `, '')
  const fail = (failure: FailureKind, message: string): Refused => ({
    ok: false,
    refusal: { ...refusal, message, failure },
  })
  if (refusal.kind === 'unauthorized' && credentialOf !== undefined)
    return fail('credentials', withCure(credentialSubject(credentialOf, remote), cure))
  if (LASTING_KINDS.includes(refusal.kind) || UNRESOLVED.test(cure))
    return fail('configuration', withCure(remoteSubject(name), cure))
  return errorKind === 'network'
    ? fail('network', withCure(remoteSubject(name), cure))
    : { ok: false, refusal }
}

/** Explains why a push was refused. A refusal of what the run has changed stays the run's own failure. */
export function explainUnwritable(
  { credentialOf, remote }: RemoteRepository,
  { refused, isAboutRights }: GitFailure,
): Refused {
  const { refusal } = refused
  if (isAboutRights !== true) return refused
  const subject = credentialOf === undefined ? undefined : credentialSubject(credentialOf, remote)
  const message = subject === undefined ? refusal.message : withCure(subject, refusal.message)
  return { ok: false, refusal: { ...refusal, message, failure: 'credentials' } }
}

const credentialSubject = (provider: string, { token }: RemoteRepository['remote']): string =>
  token === undefined ? missingCredentialSubject(provider) : refusedCredentialSubject(provider)

/** The API of the code host refused the token, or a request for which it has not the right. */
export function refusedCodeHostToken(driver: string, { refusal }: Refused): Refused {
  const message = withCure(refusedCredentialSubject(driver), refusal.message)
  return { ok: false, refusal: { ...refusal, message, failure: 'credentials' } }
}

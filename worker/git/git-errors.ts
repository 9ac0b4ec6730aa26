/**
 * `explainFailure` turns git's error output into a refusal that says what to do. The other functions add what the
 * refusal means for a run, as a queue reason.
 *
 * The patterns match git's messages with `LC_ALL=C`. An unknown message is quoted: its last lines, made printable.
 */
import { no, type RefusalKind, type Refused } from '../../core/result.ts'
import {
  missingCredentialSubject,
  refusedCredentialSubject,
  remoteSubject,
  withCure,
} from '../../core/run/queue-reasons.ts'
import type { FailureKind } from '../../protocol/frames.ts'
import { printable } from '../../protocol/schema-errors.ts'
import type { GitResult } from './git.ts'
import type { RemoteRepository } from './mirror/mirror-cache.ts'

export type GitErrorKind =
  | 'network' // temporary
  | 'corrupt' // the worker's mirror is damaged and must be fetched again
  | 'locked' // a killed git left a lock behind
  | 'machine' // this machine lacks disk or memory, or git was killed; a new fetch cures nothing
  | 'permanent'
  | 'unknown' // nothing is known of the repository and the code host

interface KnownError {
  readonly pattern: RegExp
  /** The credential has not the right, whatever a run does. */
  readonly isAboutRights?: true
  readonly kind: RefusalKind
  readonly errorKind: GitErrorKind
  readonly hint: string
}

const LINES_QUOTED_MAX = 4
const CHARS_QUOTED_MAX = 600

/** The first matching pattern counts, so specific patterns come first. */
const KNOWN_ERRORS: readonly KnownError[] = [
  {
    pattern:
      /Authentication failed|could not read (Username|Password)|HTTP Basic: Access denied|returned error: 401/,
    kind: 'unauthorized',
    errorKind: 'permanent',
    isAboutRights: true,
    hint: 'the code host refused the token; connect the code host again, or set codehost.token',
  },
  {
    pattern: /Permission denied \(|Host key verification failed|no mutual signature/,
    kind: 'unauthorized',
    errorKind: 'permanent',
    isAboutRights: true,
    hint: 'ssh was refused; give the worker’s user a key that the code host knows, and the code host’s key in known_hosts',
  },
  {
    pattern: /without `?workflow`? scope|refusing to allow .* to create or update workflow/,
    kind: 'forbidden',
    errorKind: 'permanent',
    hint: 'the token may not change files under .github/workflows; give it the workflow scope, or take allowWorkflows of the repository back',
  },
  {
    pattern: /GH001|larger than .*file size limit|exceeds .* limit/i,
    kind: 'invalid',
    errorKind: 'permanent',
    hint: 'a file is larger than the code host takes; leave it out of the commits, or ignore it',
  },
  {
    pattern: /GH006|GH013|protected branch|hook declined|rule violations/i,
    kind: 'forbidden',
    errorKind: 'permanent',
    hint: 'a rule or a hook of the code host refused the push; look at the rules for this branch',
  },
  {
    pattern:
      /returned error: 403|access denied|Write access to repository not granted|Permission to .* denied/i,
    kind: 'forbidden',
    errorKind: 'permanent',
    isAboutRights: true,
    hint: 'the token may not do this in this repository; give it read and write access to its contents',
  },
  {
    pattern: /dubious ownership/,
    kind: 'forbidden',
    errorKind: 'permanent',
    hint: 'the repository’s folder belongs to another user; give it to the user the worker runs as, or run the worker as its owner',
  },
  {
    pattern: /No space left on device|Disk quota exceeded|ENOSPC/,
    kind: 'unavailable',
    errorKind: 'machine',
    hint: 'the disk is full; make room in the worker’s data directory',
  },
  {
    // Git does not always say why it could not write.
    pattern: /^(error|fatal): .*(couldn't write '|unable to write (?!.*Permission denied)|write error)/im,
    kind: 'unavailable',
    errorKind: 'machine',
    hint: 'git could not write; see that the disk of the worker has room and takes writes',
  },
  {
    // Lines of the code host begin with `remote:`; its machine is not meant.
    pattern:
      /^(error|fatal): .*(out of memory|cannot allocate memory|cannot fork|(cannot|unable to) create (async )?thread|died of signal|Too many open files|Read-only file system)/im,
    kind: 'failed',
    errorKind: 'machine',
    hint: 'git lacked memory, processes or files, or was killed; raise the limits of the worker’s machine',
  },
  {
    pattern: /\.lock': File exists|Another git process seems to be running/,
    kind: 'failed',
    errorKind: 'locked',
    hint: 'a lock was left behind',
  },
  {
    // Git's message contains the repository's name, which may contain words such as ssl or tls.
    pattern:
      /Could not resolve host|Failed to connect|Connection (refused|timed out|reset)|Operation timed out|Connection closed|early EOF|unexpected disconnect|RPC failed|hung up unexpectedly|(?<![\w./-])(SSL|TLS|GnuTLS)[ _]|returned error: (429|5\d\d)|Internal Server Error|fatal error in commit_refs|remote failed to report status|Network is unreachable|Temporary failure/i,
    kind: 'failed',
    errorKind: 'network',
    hint: 'the code host could not be reached; see that this worker has a way to it',
  },
  {
    pattern:
      /repository .* not found|returned error: 404|does not appear to be a git repository|does not exist|Repository not found/i,
    kind: 'unknown',
    errorKind: 'permanent',
    hint: 'there is no such repository, or the token may not see it; correct remote or cloneUrl, or give the token access',
  },
  {
    pattern: /returned error: 30[1278]/,
    kind: 'invalid',
    errorKind: 'permanent',
    hint: 'the code host answers with a redirect, which git does not follow here; set remote or cloneUrl to the repository’s present address',
  },
  {
    pattern: /configures hooks/,
    kind: 'forbidden',
    errorKind: 'permanent',
    hint: 'this repository’s own configuration has commands that git cannot switch off; remove its sections hook.*',
  },
  {
    pattern: /transport '[^']*' not allowed/,
    kind: 'invalid',
    errorKind: 'permanent',
    hint: 'the address leads on to a kind of place that is not allowed',
  },
  {
    // Ahead of the words for damage, which git adds when it could not read.
    pattern: /^(error|fatal|warning): .*: (Permission denied|Operation not permitted)$/im,
    kind: 'failed',
    errorKind: 'unknown',
    hint: 'git may not read or write a file; give it to the user who runs git there, with the right to read and write',
  },
  {
    pattern:
      /not a git repository|bad object|corrupt|unable to read|is empty|inflate|bad config|broken|missing (blob|tree|commit)|did not send all necessary objects|cannot be (mapped|used)|not our ref|invalid sha1 pointer|could not open/i,
    kind: 'failed',
    errorKind: 'corrupt',
    hint: 'the worker’s copy of the repository is damaged',
  },
]

export interface GitFailure {
  readonly errorKind: GitErrorKind
  /** The credential has not the right, whatever a run does. */
  readonly isAboutRights?: true
  readonly refused: Refused
}

/** @param activity what git was doing, such as `fetching owner/name` */
export function explainFailure(activity: string, stderr: string): GitFailure {
  const known = KNOWN_ERRORS.find(({ pattern }) => pattern.test(stderr))
  const quoted = lastLines(stderr)
  if (known === undefined) {
    return { errorKind: 'unknown', refused: no('failed', `${activity}: git says: ${quoted || 'nothing'}`) }
  }
  return {
    errorKind: known.errorKind,
    ...(known.isAboutRights === true ? { isAboutRights: true } : {}),
    refused: no(known.kind, `${activity}: ${known.hint}${quoted === '' ? '' : ` (git says: ${quoted})`}`),
  }
}

/** Explains the end of a git that did not exit with 0. */
export function explainEnd(
  activity: string,
  { code, output, stderr }: Pick<GitResult, 'code' | 'output' | 'stderr'>,
): GitFailure {
  if (code !== undefined) return explainFailure(activity, stderr || output)
  const reason = 'git was killed by a signal; see that the worker’s machine has enough memory'
  return { errorKind: 'machine', refused: no('failed', `${activity}: ${reason}`) }
}

/** A machine that lacks something says nothing about the work in the sandbox, so a later try may collect it. */
export const refuseCollecting = (fault: string): Refused =>
  no(
    explainFailure('', fault).errorKind === 'machine' ? 'unavailable' : 'failed',
    `collecting the work failed: ${fault}`,
  )

/** The last lines of git's output, without hints, for messages to people. */
export function lastLines(text: string): string {
  const lines = text
    .split(/[\r\n]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('hint:'))
  return printable(lines.slice(-LINES_QUOTED_MAX).join(' / ')).slice(0, CHARS_QUOTED_MAX)
}

// ---- queue reasons -------------------------------------------------------------------------------------------------

/**
 * Refuses because the configuration of the repository is wrong, with a queue reason and its cure.
 *
 * A wrong remote or a refused token stays wrong however often a run starts, so the host keeps the run in its queue.
 */
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

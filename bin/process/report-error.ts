/**
 * Turns the error that ended a command into a message for the person and an exit code for scripts.
 *
 * A message is one sentence, and a line with what helps follows where something does. Bugs show where they happened
 * with `--debug` only.
 */
import { HostNotFound, HostRefusal, HostUnreachable, WrongAddress } from '../../client/errors.ts'
import { messageOf } from '../../protocol/message-of.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import type { Output } from '../output/output.ts'
import { shortenHome } from '../output/short-names.ts'
import { EXIT, isExitError } from './exit.ts'
import { LogRedactor } from './log-redaction.ts'

/** Prints the message, and returns the exit code. */
export function reportError(
  error: unknown,
  output: Pick<Output, 'error' | 'format'>,
  isDebugging = false,
): number {
  // commander has printed its help or its version; without a command that is wrong usage.
  if (isCommanderError(error)) return error.exitCode === 0 ? EXIT.done : EXIT.usage
  const code = exitCodeOf(error)
  const ownCure: unknown = Reflect.get(Object(error), 'cure')
  const cure = ownCure ?? (error instanceof HostRefusal ? cureOfRequest(error) : undefined)
  // An ExitError with this code is a failure of the machine that the message explains.
  const isBug = code === EXIT.broken && !isExitError(error)
  const text = isBug ? describeBug(error, isDebugging) : describe(error, isDebugging)
  const redactor = new LogRedactor()
  const redacted = redactor.redact(text)
  const message = output.format === 'json' ? redacted : shortenHome(redacted)
  // A cure may repeat what was typed.
  output.error(message, typeof cure === 'string' ? redactor.redact(cure) : isBug ? BUG_CURE : undefined)
  return code
}

/** No message for a person explains the error. */
export const isUnexpected = (error: unknown): boolean =>
  !isCommanderError(error) && !isExitError(error) && exitCodeOf(error) === EXIT.broken

function exitCodeOf(error: unknown): number {
  if (isExitError(error)) return error.code
  if (error instanceof HostRefusal) return EXIT.refused
  if (error instanceof HostNotFound || error instanceof HostUnreachable) return EXIT.unavailable
  return error instanceof WrongAddress ? EXIT.usage : EXIT.broken
}

function describe(error: unknown, isDebugging: boolean): string {
  const message = messageOf(error)
  if (!isDebugging || !(error instanceof HostRefusal)) return message
  return `${message} (${error.request} answered ${error.status})`
}

const BUG_CURE = 'switchyard doctor; the same command with SWITCHYARD_DEBUG=1 shows where it failed'

function describeBug(error: unknown, isDebugging: boolean): string {
  const mayShowPlace = isDebugging || (process.env.SWITCHYARD_DEBUG ?? '') !== ''
  if (error instanceof Error && mayShowPlace) return error.stack ?? error.message
  return `this failed unexpectedly: ${messageOf(error)}`
}

function isCommanderError(error: unknown): error is { code: string; exitCode: number } {
  return (
    error instanceof Error &&
    'code' in error &&
    String(error.code).startsWith('commander.') &&
    'exitCode' in error
  )
}

// ---- cures of refused requests -------------------------------------------------------------------------------------

interface RequestCure {
  readonly request: RegExp
  readonly statuses: readonly number[]
  /** @param words the groups of the request, as words of a shell */
  readonly cure: (...words: string[]) => string
}

const CURES: readonly RequestCure[] = [
  {
    request: /^\w+ \/api\/pulls\/[^/]+\/\d+(?:\/|$)/,
    statuses: [404],
    cure: () => 'switchyard pulls',
  },
  {
    request: /^POST \/api\/pulls\/([^/]+)\/(\d+)\//,
    statuses: [400, 409],
    cure: (repo = '', number = '') => `switchyard pulls show ${repo} ${number}`,
  },
  { request: /^GET \/api\/pulls(?:\?|$)/, statuses: [400], cure: () => 'switchyard connect codehost' },
  {
    request: /^GET \/api\/runs\/([^/]+)\/artifacts\//,
    statuses: [404],
    cure: (run = '') => `switchyard runs artifacts ${run}`,
  },
  { request: /^POST \/api\/tickets$/, statuses: [400], cure: () => 'switchyard config get repos' },
  { request: /^POST \/api\/tickets$/, statuses: [409], cure: () => 'switchyard doctor' },
  {
    request: /^DELETE \/api\/workers\/([^/]+)$/,
    statuses: [400],
    cure: (worker = '') => `switchyard workers drain ${worker}`,
  },
]

/** A code host that is a folder lacks no account. */
const FOLDER_SETTING = 'codehost.path'
/** The host names a wrong field of the request. Only the repository is a name that another command lists. */
const WRONG_FIELD = /^\/(?!repo:)/

/** Names the command that helps when the host refuses a request, where the request alone decides that. */
export function cureOfRequest({
  request,
  status,
  message,
}: Pick<HostRefusal, 'request' | 'status' | 'message'>): string | undefined {
  if (WRONG_FIELD.test(message)) return undefined
  if (message.includes(FOLDER_SETTING)) return `switchyard config set ${FOLDER_SETTING} FOLDER`
  for (const { request: pattern, statuses, cure } of CURES) {
    const found = statuses.includes(status) ? pattern.exec(request) : null
    if (found !== null) return cure(...found.slice(1).map((part) => quoteWord(decodeURIComponent(part))))
  }
  return undefined
}

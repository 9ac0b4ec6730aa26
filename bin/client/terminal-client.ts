/**
 * Being attached to a session, across breaks of the line.
 *
 * One line at a time to the host, which sends the whole picture of the terminal on each, so a line that broke is
 * dialled again and nothing is missing or comes twice. A host that is started again is found where it is then. What
 * ends it: the session's own end, a refusal that no waiting changes, a host that stays away, or the person.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import { EXIT, ExitError } from '../exit.ts'
import { removeControls } from '../quickstart/colors.ts'
import { type ConnectionEnd, dialTerminal, type TerminalListener } from './dial-terminal.ts'
import type { HostAddress } from './find-host.ts'
import type { InputSender, WindowSize } from './input-sender.ts'
import { LocalTerminalFilter } from './terminal-output-filter.ts'

export type AttachmentEnd =
  /** The session's process ended, with this. */
  | { readonly is: 'exited'; readonly code: number }
  | { readonly is: 'refused'; readonly message: string }
  | { readonly is: 'unreachable'; readonly message: string }
  | { readonly is: 'left' }

export interface AttachmentOptions {
  readonly runId: string
  /** Anew for each line. Fails with an `Ending`. */
  readonly findHost: () => Promise<HostAddress>
  readonly clock: Pick<Clock, 'after' | 'monotonic'>
  readonly inputSender: InputSender
  readonly size: () => WindowSize
  readonly draw: (text: string) => void
  /** For the person, beside what the session draws. */
  readonly note: (text: string) => void
  /** The person goes. */
  readonly leave: AbortSignal
  /** Has `wish` called whenever the picture is wanted anew; it comes with a new line. */
  readonly onRedrawNeeded: (wish: () => void) => Cancel
}

/** Between one line and the next, so long as none of them stands; together longer than a host takes to be started again. */
const RETRY_PAUSES_MS = [200, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]
/** A line that stood for so long was a good one. */
const STABLE_MS = 5_000

/** What became of one line. */
interface ConnectionResult {
  readonly end: ConnectionEnd
  readonly ms: number
  /** The session, or something of it, was seen. */
  readonly hasOutput: boolean
  /** Nothing is wrong with it. */
  readonly isRedraw: boolean
  /** Its host is the same, with the same token, whenever it is looked for. */
  readonly isFromEnvironment: boolean
}

export async function stayAttached(parts: AttachmentOptions): Promise<AttachmentEnd> {
  let failures = 0
  let wasShown = false
  let lastRefusal: string | undefined
  for (;;) {
    const result = await connectOnce(parts)
    if (parts.leave.aborted) return { is: 'left' }
    const isAfterBreak = wasShown && !result.hasOutput
    wasShown ||= result.hasOutput
    if (result.isRedraw) continue
    failures = result.hasOutput && result.ms >= STABLE_MS ? 1 : failures + 1
    const ms = RETRY_PAUSES_MS[failures - 1]
    const end = attachmentEndOf(result, { isAfterBreak, isLast: ms === undefined })
    if (end !== undefined) return end
    const message = describeEnd(result.end)
    if (ms === undefined) return { is: 'unreachable', message }
    const isNew = result.hasOutput || failures === 1 || result.end.refusal !== lastRefusal
    lastRefusal = result.end.refusal
    if (isNew) parts.note(`${message}; dialling again`)
    await waitOrLeave(ms, parts)
  }
}

interface RetryProgress {
  /** The session was seen, and this line did not come so far. */
  readonly isAfterBreak: boolean
  /** It is not dialled again. */
  readonly isLast: boolean
}

/** `undefined`: it may be dialled again, or the host did not say anything that would end it. */
function attachmentEndOf(
  { end: over, isFromEnvironment: isNamed }: ConnectionResult,
  { isAfterBreak, isLast }: RetryProgress,
): AttachmentEnd | undefined {
  const { exit, refusal, status } = over
  if (exit !== undefined) return { is: 'exited', code: exit }
  if (refusal === undefined || isTemporary(status)) return undefined
  if (!isLast && isAfterBreak && mayRecover(status, isNamed)) return undefined
  return { is: 'refused', message: removeControls(refusal) }
}

/** Too much at once, or nobody at home behind a proxy: in a moment it may be otherwise. */
const isTemporary = (status: number | undefined): boolean =>
  status !== undefined && (status >= 500 || [408, 425, 429].includes(status))

/**
 * Right after a break: the worker, too, has to find the host again, and a host that was started again has a new token
 * where the old one was.
 */
function mayRecover(status: number | undefined, isNamed: boolean): boolean {
  return status === undefined || status === 409 || (status === 401 && !isNamed)
}

const describeEnd = ({ refusal, reason }: ConnectionEnd): string =>
  removeControls(refusal ?? `the line to the host is gone (${reason})`)

async function connectOnce(parts: AttachmentOptions): Promise<ConnectionResult> {
  try {
    return await runConnection(parts, await parts.findHost())
  } catch (error) {
    if (!(error instanceof ExitError) || error.code !== EXIT.unavailable) throw error
    return {
      end: { reason: error.message },
      ms: 0,
      hasOutput: false,
      isRedraw: false,
      isFromEnvironment: false,
    }
  }
}

function runConnection(parts: AttachmentOptions, at: HostAddress): Promise<ConnectionResult> {
  const { runId, clock, inputSender, size, draw, leave, onRedrawNeeded: onAnew } = parts
  const began = clock.monotonic()
  // A sequence that the last line left half done is none of this one's.
  const filter = new LocalTerminalFilter()
  let [isShown, isWished] = [false, false]
  return new Promise((resolve) => {
    const listener: TerminalListener = {
      onOpen: () => inputSender.connect(line, size()),
      onOutput(data) {
        isShown = true
        draw(filter.filter(data))
      },
      onEnd(over) {
        leave.removeEventListener('abort', hangUp)
        forget()
        inputSender.disconnect()
        const ms = clock.monotonic() - began
        resolve({
          end: over,
          ms,
          hasOutput: isShown,
          isRedraw: isWished && hasNoVerdict(over),
          isFromEnvironment: at.isFromEnvironment === true,
        })
      },
    }
    const line = dialTerminal(at, runId, clock, listener)
    const hangUp = () => line.close()
    const forget = onAnew(() => {
      isWished = true
      hangUp()
    })
    leave.addEventListener('abort', hangUp)
    if (leave.aborted) hangUp()
  })
}

const hasNoVerdict = ({ exit, refusal }: ConnectionEnd): boolean =>
  exit === undefined && refusal === undefined

/** Or until the person goes. */
function waitOrLeave(ms: number, { clock, leave }: AttachmentOptions): Promise<void> {
  return new Promise((resolve) => {
    if (leave.aborted) return resolve()
    const cancel = clock.after(ms, done)
    leave.addEventListener('abort', done)
    function done(): void {
      cancel()
      leave.removeEventListener('abort', done)
      resolve()
    }
  })
}

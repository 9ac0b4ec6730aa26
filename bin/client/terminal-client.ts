/**
 * Being attached to a session, across breaks of the line.
 *
 * One line at a time to the host, which sends the whole picture of the terminal on each, so a line that broke is
 * dialled again and nothing is missing or comes twice. A host that is started again is found where it is then. What
 * ends it: the session's own end, a refusal that no waiting changes, a host that stays away, or the person.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import { Ending, EXIT } from '../exit.ts'
import { harmless } from '../quickstart/colors.ts'
import { dialTerminal, type LineOver, type TerminalEar } from './dial-terminal.ts'
import type { HostAt } from './find-host.ts'
import type { Size, Typist } from './input-sender.ts'
import { Curtain } from './terminal-output-filter.ts'

export type AttachmentEnd =
  /** The session's process ended, with this. */
  | { readonly is: 'exited'; readonly code: number }
  | { readonly is: 'refused'; readonly message: string }
  | { readonly is: 'unreachable'; readonly message: string }
  | { readonly is: 'left' }

export interface AttachmentParts {
  readonly runId: string
  /** Anew for each line. Fails with an `Ending`. */
  readonly find: () => Promise<HostAt>
  readonly clock: Pick<Clock, 'after' | 'monotonic'>
  readonly typist: Typist
  readonly size: () => Size
  readonly draw: (text: string) => void
  /** For the person, beside what the session draws. */
  readonly note: (text: string) => void
  /** The person goes. */
  readonly leave: AbortSignal
  /** Has `wish` called whenever the picture is wanted anew; it comes with a new line. */
  readonly onAnew: (wish: () => void) => Cancel
}

/** Between one line and the next, so long as none of them stands; together longer than a host takes to be started again. */
const AGAIN_MS = [200, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]
/** A line that stood for so long was a good one. */
const STEADY_MS = 5_000

/** What became of one line. */
interface Stood {
  readonly over: LineOver
  readonly ms: number
  /** The session, or something of it, was seen. */
  readonly isShown: boolean
  /** Nothing is wrong with it. */
  readonly isWished: boolean
  /** Its host is the same, with the same token, whenever it is looked for. */
  readonly isNamed: boolean
}

export async function stayAttached(parts: AttachmentParts): Promise<AttachmentEnd> {
  let failures = 0
  let wasShown = false
  let told: string | undefined
  for (;;) {
    const stood = await oneLine(parts)
    if (parts.leave.aborted) return { is: 'left' }
    const isAfterBreak = wasShown && !stood.isShown
    wasShown ||= stood.isShown
    if (stood.isWished) continue
    failures = stood.isShown && stood.ms >= STEADY_MS ? 1 : failures + 1
    const ms = AGAIN_MS[failures - 1]
    const end = endOf(stood, { isAfterBreak, isLast: ms === undefined })
    if (end !== undefined) return end
    const message = messageOf(stood.over)
    if (ms === undefined) return { is: 'unreachable', message }
    const isNews = stood.isShown || failures === 1 || stood.over.refusal !== told
    told = stood.over.refusal
    if (isNews) parts.note(`${message}; dialling again`)
    await passed(ms, parts)
  }
}

interface Turn {
  /** The session was seen, and this line did not come so far. */
  readonly isAfterBreak: boolean
  /** It is not dialled again. */
  readonly isLast: boolean
}

/** `undefined`: it may be dialled again, or the host did not say anything that would end it. */
function endOf({ over, isNamed }: Stood, { isAfterBreak, isLast }: Turn): AttachmentEnd | undefined {
  const { exit, refusal, status } = over
  if (exit !== undefined) return { is: 'exited', code: exit }
  if (refusal === undefined || isPassing(status)) return undefined
  if (!isLast && isAfterBreak && maySettle(status, isNamed)) return undefined
  return { is: 'refused', message: harmless(refusal) }
}

/** Too much at once, or nobody at home behind a proxy: in a moment it may be otherwise. */
const isPassing = (status: number | undefined): boolean =>
  status !== undefined && (status >= 500 || [408, 425, 429].includes(status))

/**
 * Right after a break: the worker, too, has to find the host again, and a host that was started again has a new token
 * where the old one was.
 */
function maySettle(status: number | undefined, isNamed: boolean): boolean {
  return status === undefined || status === 409 || (status === 401 && !isNamed)
}

const messageOf = ({ refusal, reason }: LineOver): string =>
  harmless(refusal ?? `the line to the host is gone (${reason})`)

async function oneLine(parts: AttachmentParts): Promise<Stood> {
  try {
    return await seen(parts, await parts.find())
  } catch (error) {
    if (!(error instanceof Ending) || error.code !== EXIT.unavailable) throw error
    return { over: { reason: error.message }, ms: 0, isShown: false, isWished: false, isNamed: false }
  }
}

function seen(parts: AttachmentParts, at: HostAt): Promise<Stood> {
  const { runId, clock, typist, size, draw, leave, onAnew } = parts
  const began = clock.monotonic()
  // A sequence that the last line left half done is none of this one's.
  const curtain = new Curtain()
  let [isShown, isWished] = [false, false]
  return new Promise((resolve) => {
    const ear: TerminalEar = {
      opened: () => typist.connect(line, size()),
      printed(data) {
        isShown = true
        draw(curtain.pass(data))
      },
      over(over) {
        leave.removeEventListener('abort', hangUp)
        forget()
        typist.disconnect()
        const ms = clock.monotonic() - began
        resolve({ over, ms, isShown, isWished: isWished && isBare(over), isNamed: at.isNamed === true })
      },
    }
    const line = dialTerminal(at, runId, clock, ear)
    const hangUp = () => line.close()
    const forget = onAnew(() => {
      isWished = true
      hangUp()
    })
    leave.addEventListener('abort', hangUp)
    if (leave.aborted) hangUp()
  })
}

const isBare = ({ exit, refusal }: LineOver): boolean => exit === undefined && refusal === undefined

/** Or until the person goes. */
function passed(ms: number, { clock, leave }: AttachmentParts): Promise<void> {
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

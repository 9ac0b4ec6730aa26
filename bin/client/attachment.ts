/**
 * Being attached to a session, across breaks of the line.
 *
 * One line at a time to the host, which sends the whole picture of the terminal on each, so a line that broke is
 * dialled again and nothing is missing or comes twice. A host that is started again is found where it is then. What
 * ends it: the session's own end, a refusal, a host that stays away, or the person.
 */
import type { Cancel, Clock } from '../../core/ports.ts'
import { Ending, EXIT } from '../exit.ts'
import { harmless } from '../quickstart/paint.ts'
import { Curtain } from './curtain.ts'
import { dialTerminal, type LineOver, type TerminalEar } from './dial-terminal.ts'
import type { HostAt } from './find-host.ts'
import type { Size, Typist } from './typist.ts'

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
}

export async function stayAttached(parts: AttachmentParts): Promise<AttachmentEnd> {
  let failures = 0
  let wasShown = false
  for (;;) {
    const stood = await oneLine(parts)
    if (parts.leave.aborted) return { is: 'left' }
    // Right after a break a refusal may be of those that pass: the worker, too, has to find the host again.
    const maySettle = wasShown && !stood.isShown
    wasShown ||= stood.isShown
    if (stood.isWished) continue
    failures = stood.isShown && stood.ms >= STEADY_MS ? 1 : failures + 1
    const ms = AGAIN_MS[failures - 1]
    const end = endOf(stood.over, ms === undefined || !maySettle)
    if (end !== undefined) return end
    const message = `the line to the host is gone (${harmless(stood.over.reason)})`
    if (ms === undefined) return { is: 'unreachable', message }
    if (stood.isShown || failures === 1) parts.note(`${message}; dialling again`)
    await passed(ms, parts)
  }
}

function endOf({ exit, refusal }: LineOver, isFinal: boolean): AttachmentEnd | undefined {
  if (exit !== undefined) return { is: 'exited', code: exit }
  return refusal === undefined || !isFinal ? undefined : { is: 'refused', message: harmless(refusal) }
}

async function oneLine(parts: AttachmentParts): Promise<Stood> {
  try {
    return await seen(parts, await parts.find())
  } catch (error) {
    if (!(error instanceof Ending) || error.code !== EXIT.unavailable) throw error
    return { over: { reason: error.message }, ms: 0, isShown: false, isWished: false }
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
        resolve({ over, ms: clock.monotonic() - began, isShown, isWished: isWished && isBare(over) })
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

/**
 * ForeignHost answers at the host's address while the host is down: a host whose database is of another installation.
 *
 * It knows no worker, so it refuses every credential as `unauthorized`. It closes a connection that offers a token.
 */
import type { WorkerReceiver, WorkerSender } from '../../core/ports/connections.ts'
import { type HostFrame, readRegister } from '../../protocol/frames.ts'
import { WORKER_FRAME_BYTES_MAX } from '../../protocol/limits.ts'
import type { Process, Timeline } from './timeline.ts'

export const FOREIGN_INSTALLATION = 'in-00000000000000bb'

const REFUSAL: HostFrame = {
  type: 'rejected',
  code: 'unauthorized',
  reason: 'this worker is not enrolled at this host',
  installation: FOREIGN_INSTALLATION,
}

export class ForeignHost {
  /** The true time at which it stops answering. */
  until = Number.NEGATIVE_INFINITY
  readonly #time: Timeline
  readonly #onRefused: () => void
  readonly #process: Process = { name: 'foreign host', dead: false, pausedUntil: 0, endOfTickCallbacks: [] }

  constructor(time: Timeline, onRefused: () => void) {
    this.#time = time
    this.#onRefused = onRefused
  }

  /** Returns undefined when no foreign host is there. */
  connectWorker(sender: WorkerSender): { host: Process; end: WorkerReceiver } | undefined {
    if (this.#time.now >= this.until) return undefined
    const onText = (text: string) => {
      // A hostile line may send text that is no frame, or a register frame without its credential.
      const read = readRegister(text)
      if (read.is === 'register' && read.frame.auth.kind === 'credential') {
        this.#onRefused()
        sender.send(JSON.stringify(REFUSAL))
      }
      sender.close(1008, 'unknown')
    }
    const end: WorkerReceiver = {
      onText,
      onUnreadable: () => {},
      onClosed: () => {},
      frameBytesMax: () => WORKER_FRAME_BYTES_MAX,
    }
    return { host: this.#process, end }
  }
}

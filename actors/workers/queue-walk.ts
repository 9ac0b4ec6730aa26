/**
 * QueueWalk goes through the lines of the queue in the order of dispatch, to place runs.
 *
 * A run or a whole line that no worker can take now is passed over for the rest of the walk. `end` puts passed runs back.
 */
import { popFromHeap, pushToHeap } from '../runtime/heap.ts'
import { precedes, type QueueEntry, type QueueLine } from './queue-line.ts'

/** A line with the run that was its first when the line took its place. */
interface WalkedLine {
  readonly line: QueueLine
  readonly first: QueueEntry
}

const isBefore = (a: WalkedLine, b: WalkedLine): boolean => precedes(a.first, b.first)

export class QueueWalk {
  readonly #lines: WalkedLine[] = []
  readonly #passed: QueueEntry[] = []

  constructor(lines: Iterable<QueueLine>) {
    for (const line of lines) this.#push(line)
  }

  /** The first run that was not passed over; it stays in the queue. */
  first(): QueueEntry | undefined {
    for (;;) {
      const [top] = this.#lines
      if (top === undefined || top.line.first() === top.first) return top?.first
      this.#pop()
      this.#push(top.line)
    }
  }

  /** Passes over the first run. */
  passRun(): void {
    const first = this.first()
    if (first === undefined) return
    first.line.removeFirst()
    this.#passed.push(first)
  }

  /** Passes over all runs of the first run's line. */
  passLine(): void {
    if (this.first() !== undefined) this.#pop()
  }

  end(): void {
    for (const entry of this.#passed.splice(0)) entry.line.putBack(entry)
  }

  #push(line: QueueLine): void {
    const first = line.first()
    if (first !== undefined) pushToHeap(this.#lines, { line, first }, isBefore)
  }

  #pop(): void {
    popFromHeap(this.#lines, isBefore)
  }
}

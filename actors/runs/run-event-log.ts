/**
 * What happens in runs, as events that get a place in the run's log with the next cut.
 *
 * The index of an event is given when it is noted, so it never depends on when the disk is done. Nobody hears of an
 * event before the cut that holds it has landed; then everybody does, in order.
 */
import type { EventLogs, Write } from '../../core/ports.ts'
import type { ReportedEvent, RunEvent } from '../../protocol/run.ts'
import type { CommitContribution, CommitParticipant } from '../runtime/commit-loop.ts'

export interface JournalPorts {
  readonly events: Pick<EventLogs, 'next'>
  readonly requestCommit: () => void
  /** Told of each event once it is on disk, with its JSON. */
  readonly tell: (event: RunEvent, json: string) => void
}

interface Page {
  /** Index of the first event that no cut has taken. */
  first: number
  /** Taken by cuts that have not landed. */
  inFlight: number
  events: RunEvent[]
  lines: string[]
}

/** Pages of runs in which nothing happens are dropped once there are more than this; the store knows their ends. */
const PAGES_KEPT = 4_096

export class Journal implements CommitParticipant {
  readonly #ports: JournalPorts
  readonly #pages = new Map<string, Page>()
  readonly #dirty = new Set<string>()

  constructor(ports: JournalPorts) {
    this.#ports = ports
  }

  /** Answers how many bytes the event will take. */
  note(runId: string, reported: ReportedEvent): number {
    const page = this.#page(runId)
    const index = page.first + page.events.length
    const { at, type, ...fields } = reported
    const event = { runId, index, at, type, ...fields } as RunEvent
    const json = JSON.stringify(event)
    page.events.push(event)
    page.lines.push(json)
    this.#dirty.add(runId)
    this.#ports.requestCommit()
    return json.length
  }

  /** A sentence of the host's own in the run's log. */
  say(runId: string, at: string, text: string): void {
    this.note(runId, { at, type: 'log', stream: 'system', text })
  }

  /** Runs of which a page is kept; bounded, however many runs there were. */
  get size(): number {
    return this.#pages.size
  }

  contribute(): CommitContribution | undefined {
    if (this.#dirty.size === 0) return undefined
    const writes: Write[] = []
    const taken: { runId: string; page: Page; events: RunEvent[]; lines: string[] }[] = []
    for (const runId of this.#dirty) {
      const page = this.#pages.get(runId)
      if (page === undefined || page.events.length === 0) continue
      const { events, lines, first } = page
      writes.push({ table: 'events', runId, first, count: events.length, lines: `${lines.join('\n')}\n` })
      page.first += events.length
      page.inFlight += 1
      page.events = []
      page.lines = []
      taken.push({ runId, page, events, lines })
    }
    this.#dirty.clear()
    return {
      writes,
      onCommitted: () => {
        for (const { page, events, lines } of taken) {
          page.inFlight -= 1
          for (let at = 0; at < events.length; at++)
            this.#ports.tell(events[at] as RunEvent, lines[at] as string)
        }
        this.#tidy()
      },
    }
  }

  #page(runId: string): Page {
    const known = this.#pages.get(runId)
    if (known !== undefined) return known
    const page = { first: this.#ports.events.next(runId), inFlight: 0, events: [], lines: [] }
    this.#pages.set(runId, page)
    return page
  }

  #tidy(): void {
    if (this.#pages.size <= PAGES_KEPT) return
    for (const [runId, page] of this.#pages) {
      if (this.#pages.size <= PAGES_KEPT / 2) return
      if (page.inFlight === 0 && page.events.length === 0) this.#pages.delete(runId)
    }
  }
}

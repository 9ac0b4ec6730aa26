/** `switchyard status`: what runs, what waits and what needs a person, on one screen; `--watch` prints it anew. */
import type { Client } from '../../../client/client.ts'
import { DashboardFeed } from '../../../client/dashboard-feed.ts'
import { isPassing } from '../../../client/errors.ts'
import { describeCodeHost, readWaitingPulls } from '../../../client/observed-services.ts'
import { readFinishedSince } from '../../../client/read-finished-since.ts'
import type { AttentionItem, AttentionResponse } from '../../../protocol/attention.ts'
import type { ServiceConfig } from '../../../protocol/config.ts'
import type { Run } from '../../../protocol/run.ts'
import { lastMidnight } from '../../output/times.ts'
import { whileWatching } from '../../process/watching.ts'
import type { ClientOptions, CommandContext } from '../command/run-command.ts'
import { readSpentToday } from '../costs/spent.ts'
import { type HostSnapshot, readHostRecords, snapshotOf } from './host-records.ts'
import { printSnapshot, type SnapshotDetails } from './status-lines.ts'

export interface StatusOptions extends ClientOptions {
  readonly watch?: boolean | undefined
}

/** A watched status is read again so often at most. */
const REFRESH_MS_MIN = 1_000
const CLEAR_SCREEN = '\x1b[H\x1b[2J'

export async function status(context: CommandContext<StatusOptions>): Promise<number | undefined> {
  if (context.options.watch === true) return await watchStatus(context)
  print(context, await readStatus(context, createObserver(context)))
  return undefined
}

interface Status {
  readonly snapshot: HostSnapshot
  readonly details: SnapshotDetails
}

/** Reads what the code host says. */
type Observe = (config: ServiceConfig, attention: AttentionResponse) => Promise<Seen>

interface Seen {
  readonly codeHost: string
  readonly attention: AttentionResponse
}

/** A watched status asks again after so long, because that is some requests to the code host. */
const OBSERVE_MS_MIN = 60_000

function createObserver({ client, output }: CommandContext): Observe {
  let [codeHost, dueAt] = ['', -Infinity]
  return async (config, attention) => {
    const isDue = output.format === 'table' && performance.now() >= dueAt
    if (!isDue) return { codeHost, attention }
    dueAt = performance.now() + OBSERVE_MS_MIN
    const [words, hasRead] = await Promise.all([
      describeCodeHost(client, config),
      readWaitingPulls(client, attention.items),
    ])
    codeHost = words
    return { codeHost, attention: hasRead ? await client.readAttention() : attention }
  }
}

async function readStatus(context: CommandContext, observe: Observe): Promise<Status> {
  const { client, output, present } = context
  const finished: Run[] = []
  const records = await readHostRecords(client)
  if (output.format === 'table')
    await readFinishedSince(client, lastMidnight(present()), (page) => finished.push(...page))
  const { config, runs } = records
  const { codeHost, attention } = await observe(config, records.attention)
  const names =
    output.format === 'table' ? await nameItems(client, attention.items, [...runs, ...finished]) : new Map()
  const spentToday =
    output.format === 'table' ? await readSpentToday(context, [...runs, ...finished]) : undefined
  return {
    snapshot: snapshotOf({ ...records, attention }),
    details: { config, codeHost, finished, spentToday, names, more: attention.more ?? 0 },
  }
}

/** An item holds the id of its run; people know the ticket's identifier. */
async function nameItems(
  client: Client,
  items: readonly AttentionItem[],
  runs: readonly Run[],
): Promise<Map<string, string>> {
  const known = new Map(runs.map((run) => [run.id, run]))
  const named = items.map(async ({ id, runId }): Promise<[string, string][]> => {
    if (runId === undefined) return []
    const run = known.get(runId) ?? (await client.readRun({ id: runId }).catch(() => undefined))
    return run === undefined ? [] : [[id, run.ticket.identifier]]
  })
  return new Map((await Promise.all(named)).flat())
}

function print(context: CommandContext<StatusOptions>, { snapshot, details }: Status): void {
  const { output, options } = context
  if (output.format === 'json') {
    if (options.watch === true) output.jsonLine(snapshot)
    else output.json(snapshot)
  } else if (output.format === 'id') for (const { id } of snapshot.runs) output.data(id)
  else printSnapshot(context, snapshot, details)
}

// ---- watching ------------------------------------------------------------------------------------------------------

async function watchStatus(context: CommandContext<StatusOptions>): Promise<number | undefined> {
  return await whileWatching(context, 'the host goes on', async (signal) => {
    const printer = new StatusPrinter(context)
    const onResize = () => printer.redraw()
    process.stdout.on('resize', onResize)
    try {
      await printer.refresh()
      // Ctrl-C may have come meanwhile.
      signal.throwIfAborted()
      await followChanges(context, signal, printer)
    } finally {
      process.stdout.off('resize', onResize)
    }
    return undefined
  })
}

/** Ends only with an error. */
function followChanges(context: CommandContext, signal: AbortSignal, printer: StatusPrinter): Promise<void> {
  const { connection, output } = context
  return new Promise((_, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const end = (error: unknown) => {
      clearTimeout(timer)
      timer = undefined
      feed.close()
      reject(error)
    }
    // While the host is away the feed says so, and its next hello refreshes.
    const refresh = async () => {
      await printer.refresh().catch((error) => {
        if (!isPassing(error)) end(error)
      })
    }
    const refreshSoon = () => {
      timer ??= setTimeout(() => {
        timer = undefined
        void refresh()
      }, REFRESH_MS_MIN)
    }
    const feed = new DashboardFeed(connection, {
      onFrame: ({ type }) => {
        if (type !== 'run-event' && type !== 'subscribed') refreshSoon()
      },
      onLost: () => output.warn('connection lost, trying again'),
      onEnd: end,
    })
    signal.addEventListener('abort', () => end(signal.reason), { once: true })
  })
}

/** Prints a status that differs from the printed one in more than the times of polls and heartbeats. */
class StatusPrinter {
  readonly #context: CommandContext<StatusOptions>
  readonly #observe: Observe
  #printed: string | undefined
  #latest: Status | undefined

  constructor(context: CommandContext<StatusOptions>) {
    this.#context = context
    this.#observe = createObserver(context)
  }

  async refresh(): Promise<void> {
    const { output } = this.#context
    const read = await readStatus(this.#context, this.#observe)
    this.#latest = read
    const key = keyOf(read.snapshot)
    if (key === this.#printed) return
    const isFirst = this.#printed === undefined
    this.#printed = key
    if (output.format === 'table') {
      if (this.#isRedrawn) output.writeData(CLEAR_SCREEN)
      else if (!isFirst) output.data('')
    }
    print(this.#context, read)
    await output.drained()
  }

  /** Lines that were drawn for another width would stay broken until the next change. */
  redraw(): void {
    if (this.#latest === undefined || !this.#isRedrawn) return
    this.#context.output.writeData(CLEAR_SCREEN)
    print(this.#context, this.#latest)
  }

  get #isRedrawn(): boolean {
    const { output } = this.#context
    return output.format === 'table' && output.stdout.isTerminal && process.env.TERM !== 'dumb'
  }
}

const PASSING = new Set(['lastPollAt', 'nextPollAt', 'lastSeenAt', 'lastHeartbeatAt'])

const keyOf = (snapshot: HostSnapshot): string =>
  JSON.stringify(snapshot, (key, value) => (PASSING.has(key) ? undefined : value))

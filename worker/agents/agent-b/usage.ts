/**
 * Reads the usage of an agentB execution from its session records: one file per thread, one line per response.
 *
 * The model is recorded before the turn that uses it. A thread that started as a copy of another also contains the
 * other's lines; each response counts in the first file that contains it.
 */
import type { PriceTable } from '../../../core/run/price.ts'
import type { UsageSnapshot } from '../../../protocol/frames.ts'
import type { AgentFiles } from '../agent.ts'
import { PROJECT_KEY } from '../command-line.ts'
import { type JsonObject, objectAt, parseObject, textAt } from '../json-lines.ts'
import { createTallyFactory, isPathSafe, type UsageTally } from '../usage-tally.ts'
import { SESSIONS_FOLDER } from './command.ts'
import { readThreadTokens } from './tokens.ts'

const RECORDS_MAX = 1_000
/** Nested folders for year, month and day. */
const DATE_FOLDERS = [/^\d{4}$/, /^\d{2}$/, /^\d{2}$/]
const RECORD_FILE = /^rollout-.+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$/

/** `sessionId` names the folder of the execution's records; the records have thread ids of their own. */
export async function readAgentBUsage(
  files: AgentFiles,
  sessionId: string,
  prices: PriceTable,
): Promise<UsageSnapshot[]> {
  if (!isPathSafe(sessionId)) return []
  const counted = new Set<string>()
  const snapshots: UsageSnapshot[] = []
  const createTally = createTallyFactory(prices, files.readAt)
  for (const path of (await listRecords(files, `${SESSIONS_FOLDER}/${sessionId}`)).slice(0, RECORDS_MAX)) {
    const snapshot = await readThread(files, path, new ThreadUsage(counted, createTally()))
    if (snapshot !== undefined) snapshots.push(snapshot)
  }
  return snapshots
}

/** Sorted by start time, which is the order of the names. */
async function listRecords(files: AgentFiles, top: string): Promise<string[]> {
  let folders = [top]
  for (const name of DATE_FOLDERS) folders = await listMatching(files, folders, name)
  return listMatching(files, folders, RECORD_FILE)
}

async function listMatching(files: AgentFiles, folders: readonly string[], name: RegExp): Promise<string[]> {
  const found: string[] = []
  for (const folder of folders.slice(0, RECORDS_MAX)) {
    const names = (await files.list(folder)).filter((entry) => name.test(entry))
    found.push(...names.slice(0, RECORDS_MAX - found.length).map((entry) => `${folder}/${entry}`))
  }
  return found
}

async function readThread(
  files: AgentFiles,
  path: string,
  thread: ThreadUsage,
): Promise<UsageSnapshot | undefined> {
  for await (const text of files.lines(path)) {
    // A fast test that skips most lines before parsing.
    const line = /"(?:turn_context|token_usage_record)"/.test(text) ? parseObject(text) : undefined
    if (line !== undefined) thread.addLine(line)
  }
  return thread.snapshot(RECORD_FILE.exec(path.slice(path.lastIndexOf('/') + 1))?.[1] ?? '')
}

class ThreadUsage {
  readonly #counted: Set<string>
  readonly #tally: UsageTally
  #model: string | undefined
  #session: string | undefined

  constructor(counted: Set<string>, tally: UsageTally) {
    this.#counted = counted
    this.#tally = tally
  }

  addLine(line: JsonObject): void {
    const payload = objectAt(line, 'payload')
    if (textAt(line, 'type') === 'turn_context') this.#model = textAt(payload, 'model') ?? this.#model
    if (textAt(line, 'type') === 'token_usage_record') this.#record(payload, textAt(line, 'timestamp'))
  }

  #record(payload: JsonObject, at: string | undefined): void {
    const id = textAt(payload, 'response_id') ?? `${textAt(payload, 'turn_id')} ${at}`
    if (this.#counted.has(id)) return
    this.#session = textAt(payload, 'session_id') ?? this.#session
    const use = readThreadTokens(objectAt(payload, 'usage'))
    if (this.#tally.add({ id, at, model: this.#model, use })) this.#counted.add(id)
  }

  /** A thread that another thread started is a nested agent of that thread. */
  snapshot(threadId: string): UsageSnapshot | undefined {
    const session = this.#session
    const isNested = session !== undefined && session !== threadId && /^[0-9a-f-]{36}$/.test(session)
    const ids = isNested ? { sessionId: session, subagentId: threadId } : { sessionId: threadId }
    return this.#tally.snapshot({ projectKey: PROJECT_KEY, ...ids })
  }
}

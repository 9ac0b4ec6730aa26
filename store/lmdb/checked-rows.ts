/**
 * Compares the rows of a database with each other: runs with their indexes, and the events of each log with the numbers
 * that it must have. Rows may come in any order.
 */
import { type Damage, damageOfEvents } from '../../core/damage.ts'
import { isRunId } from '../event-order.ts'
import { DATABASE, damageOfRow, missingRun } from './damage-list.ts'
import type { DamagedRow } from './database-check.ts'
import { type EventFileRecord, parseRecord } from './event-buffer.ts'
import { firstOfChunk, runOfChunk, toChunk } from './event-chunks.ts'
import { type FileSum, toSum } from './file-sums.ts'
import { TICKET_KEY_CHARS } from './run-index.ts'
import { TABLE } from './table-names.ts'

/** Events that lie in the database. */
export interface StoredChunk {
  readonly first: number
  /** undefined: the chunk is damaged, so nobody knows. */
  readonly next: number | undefined
}

/** The log of one run, as far as the database knows it. */
export interface StoredLog {
  readonly chunks: StoredChunk[]
  readonly sums: FileSum[]
  record?: EventFileRecord
  /** The record is there, and cannot be read. */
  isRecordDamaged?: boolean
}

export class CheckedRows {
  count = 0
  readonly runs = new Set<string>()
  readonly logs = new Map<string, StoredLog>()
  readonly #byStatus = new Set<string>()
  readonly #byTicket = new Set<string>()
  /** Entries of runs that the index by status has twice. */
  #repeated = 0

  add(table: string, key: string, content: Uint8Array): void {
    this.count++
    switch (table) {
      case TABLE.runs:
        this.runs.add(key)
        break
      case TABLE.byStatus:
        this.#addStatus(key.slice(1))
        break
      case TABLE.byTicket:
        this.#byTicket.add(key.slice(TICKET_KEY_CHARS))
        break
      case TABLE.smallLogs:
      case TABLE.eventChunks: {
        const { first, count } = toChunk({ key, value: content, stored: content })
        this.#logOf(runOfChunk(key)).chunks.push({ first, next: first + count })
        break
      }
      case TABLE.fileSums: {
        const sum = toSum({ key, value: content, stored: content })
        if (sum !== undefined) this.#logOf(runOfChunk(key)).sums.push(sum)
        break
      }
      case TABLE.eventFiles:
        this.#logOf(key).record = parseRecord(Buffer.from(content).toString('latin1'))
        break
      default:
    }
  }

  /** A row whose key can be read, and whose content cannot. */
  addDamaged({ table, key }: DamagedRow): void {
    if (table === TABLE.runs) this.runs.add(key)
    if (table === TABLE.byStatus) this.#addStatus(key.slice(1))
    if (table === TABLE.byTicket) this.#byTicket.add(key.slice(TICKET_KEY_CHARS))
    if (table === TABLE.eventFiles) this.#logOf(key).isRecordDamaged = true
    if (table === TABLE.smallLogs || table === TABLE.eventChunks)
      this.#logOf(runOfChunk(key)).chunks.push({ first: firstOfChunk(key), next: undefined })
  }

  /** Call it when every row was added. */
  findDamage(): Damage[] {
    const missing = [...new Set([...this.#byStatus, ...this.#byTicket])].filter((id) => !this.runs.has(id))
    const gaps = [...this.logs].flatMap(([runId, log]) => findGaps(runId, log))
    return [...missing.map(missingRun), ...this.#judgeIndexes(), ...gaps]
  }

  #addStatus(id: string): void {
    if (this.#byStatus.has(id)) this.#repeated++
    this.#byStatus.add(id)
  }

  #judgeIndexes(): Damage[] {
    const absent = [...this.runs].filter((id) => !(this.#byStatus.has(id) && this.#byTicket.has(id)))
    const wrong = absent.length + this.#repeated
    if (wrong === 0) return []
    return [
      {
        id: 'indexes of runs',
        where: `${DATABASE}, tables ${TABLE.byStatus} and ${TABLE.byTicket}`,
        message: `the indexes do not name ${wrong} runs as they are, so lists lack them until a start of the host makes the indexes again`,
      },
    ]
  }

  #logOf(runId: string): StoredLog {
    const known = this.logs.get(runId)
    if (known !== undefined) return known
    const log: StoredLog = { chunks: [], sums: [] }
    this.logs.set(runId, log)
    return log
  }
}

/** Returns what is missing between the events in the file and those in the database. */
function findGaps(runId: string, { chunks, sums, record, isRecordDamaged }: StoredLog): Damage[] {
  if (!isRunId(runId)) return []
  const hasRecord = record !== undefined || isRecordDamaged === true
  const found: Damage[] =
    sums.length > 0 && !hasRecord ? [{ ...damageOfRow(TABLE.eventFiles, runId), isMissing: true }] : []
  let expected: number | undefined = record?.next ?? sums.reduce((end, { next }) => Math.max(end, next), 0)
  for (const { first, next } of chunks.sort((a, b) => a.first - b.first)) {
    // A damaged chunk is named as a row, and the events up to the next chunk belong to it.
    if (expected !== undefined && first > expected)
      found.push({
        ...damageOfEvents({ runId, from: expected, to: first - 1 }, 'missing', DATABASE),
        isMissing: true,
      })
    expected = next === undefined ? undefined : Math.max(next, expected ?? 0)
  }
  return found
}

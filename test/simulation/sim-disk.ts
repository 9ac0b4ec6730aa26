/**
 * SimDisk is the simulated disk of a host or a daemon; it survives them, and the laws read it directly.
 *
 * All data is stored as text, so that written and read values share no objects with the product. A row parses its
 * text once and freezes the value, so that a reader who changes it gets an error.
 */

import type { ActorSnapshot, UsageKey, Write } from '../../core/ports/store.ts'
import type { CredentialRecords } from '../../core/settings/credential-origins.ts'
import type { Run, RunEvent } from '../../protocol/run.ts'
import type { Process } from './timeline.ts'

/** A stored value: its text and, after the first read, the frozen value. */
export class Row<T> {
  readonly text: string
  #value: T | undefined

  constructor(text: string) {
    this.text = text
  }

  get value(): T {
    // The type parameter says what was written under this name.
    this.#value ??= deepFreeze(JSON.parse(this.text)) as T
    return this.#value
  }
}

/** `lost`: other rows name it, and it is not there. */
export type RowDamage = 'garbled' | 'lost'

/** A write in its stored form. */
export type DiskChange =
  | {
      readonly is: 'snapshot'
      readonly kind: string
      readonly key: string
      readonly row: Row<ActorSnapshot> | null
    }
  | { readonly is: 'run'; readonly key: string; readonly row: Row<Run> | null }
  | {
      readonly is: 'events'
      readonly key: string
      readonly first: number
      readonly count: number
      readonly lines: readonly string[]
    }
  | {
      readonly is: 'key-value'
      readonly collection: string
      readonly key: string
      readonly row: Row<object> | null
    }

/** The writes of one commit: all of them reach the disk, or none. */
export interface DiskBatch {
  readonly number: number
  /** When the process asked for the commit; the batch may reach the disk much later. */
  readonly requestedAt: number
  readonly changes: readonly DiskChange[]
}

export interface StoredArtifact {
  /** The parts received so far. */
  parts: string[]
  complete: string | undefined
}

export class SimDisk {
  readonly snapshots = new Map<string, Map<string, Row<ActorSnapshot>>>()
  readonly runs = new Map<string, Row<Run>>()
  readonly keyValues = new Map<string, Map<string, Row<object>>>()
  readonly events = new Map<string, string[]>()
  /** Rows that cannot be read until they are written again, by collection or kind, then by key. */
  readonly #damaged = new Map<string, Map<string, RowDamage>>()
  /** By run, then by name. */
  readonly artifacts = new Map<string, Map<string, StoredArtifact>>()
  readonly usage = new Map<string, { readonly key: UsageKey; readonly text: string }>()
  config: string | undefined
  /** Called when anybody has written the configuration file. */
  readonly configWatchers = new Set<() => void>()
  credentialRecords: CredentialRecords = {}
  /** The process that opened it last: no other may write. */
  owner: Process | undefined
  readonly installation = 'in-00000000000000aa'
  #newestFirst: string[] | undefined

  constructor(config: string | undefined) {
    this.config = config
  }

  editConfig(text: string): void {
    this.config = text
    for (const notify of this.configWatchers) notify()
  }

  apply({ changes }: DiskBatch): void {
    for (const change of changes) this.#apply(change)
  }

  #apply(change: DiskChange): void {
    switch (change.is) {
      case 'snapshot':
        this.#damaged.get(change.kind)?.delete(change.key)
        put(collectionIn(this.snapshots, change.kind), change.key, change.row)
        return
      case 'key-value':
        this.#damaged.get(change.collection)?.delete(change.key)
        put(collectionIn(this.keyValues, change.collection), change.key, change.row)
        return
      case 'run': {
        if ((change.row === null) === this.runs.has(change.key)) this.#newestFirst = undefined
        put(this.runs, change.key, change.row)
        return
      }
      case 'events': {
        const log = this.events.get(change.key) ?? []
        for (const line of change.lines) log.push(line)
        this.events.set(change.key, log)
      }
    }
  }

  damage(collection: string, key: string, how: RowDamage = 'garbled'): void {
    const damaged = this.#damaged.get(collection) ?? new Map<string, RowDamage>()
    this.#damaged.set(collection, damaged.set(key, how))
  }

  /** A run and its actor share one row. */
  damageAt(collection: string, key: string): RowDamage | undefined {
    return this.#damaged.size === 0 ? undefined : this.#damaged.get(collection)?.get(key)
  }

  isDamaged(collection: string, key: string): boolean {
    return this.damageAt(collection, key) !== undefined
  }

  damagedRows(): { readonly collection: string; readonly key: string }[] {
    return [...this.#damaged].flatMap(([collection, keys]) =>
      [...keys.keys()].map((key) => ({ collection, key })),
    )
  }

  snapshot(kind: string, key: string): ActorSnapshot | undefined {
    return this.snapshots.get(kind)?.get(key)?.value
  }

  keyValue(name: string, key: string): object | undefined {
    return this.keyValues.get(name)?.get(key)?.value
  }

  run(id: string): Run | undefined {
    return this.runs.get(id)?.value
  }

  runIds(): readonly string[] {
    this.#newestFirst ??= [...this.runs.keys()].sort((a, b) => (a < b ? 1 : -1))
    return this.#newestFirst
  }

  eventsOf(runId: string): RunEvent[] {
    // The host wrote these lines as events of the run; the laws check that they are.
    return (this.events.get(runId) ?? []).map((line) => JSON.parse(line) as RunEvent)
  }
}

/** Converts a write of the product into its stored form. */
export function changeOf(write: Write): DiskChange {
  switch (write.table) {
    case 'snapshot':
      return { is: 'snapshot', kind: write.kind, key: write.key, row: rowOf(write.record) }
    case 'run':
      return { is: 'run', key: write.id, row: rowOf(write.run) }
    case 'key-value':
      return { is: 'key-value', collection: write.collection, key: write.key, row: rowOf(write.value) }
    case 'events': {
      const lines = Buffer.from(write.lines).toString().split('\n')
      lines.pop()
      return { is: 'events', key: write.runId, first: write.first, count: write.count, lines }
    }
  }
}

/** Formats a change as one line of the trace. */
export function describeChange(change: DiskChange): string {
  switch (change.is) {
    case 'snapshot':
      return `${change.kind} ${change.key} = ${change.row?.text ?? 'gone'}`
    case 'run':
      return `record of ${change.key} = ${change.row?.text ?? 'gone'}`
    case 'key-value':
      return `${change.collection} of ${change.key} = ${change.row?.text ?? 'gone'}`
    case 'events':
      return `events of ${change.key} from ${change.first}: ${change.lines.join(' ')}`
  }
}

const rowOf = <T>(value: T | null): Row<T> | null => (value === null ? null : new Row(JSON.stringify(value)))

export const usageFileName = (key: UsageKey): string =>
  `${key.projectKey}/${key.sessionId}${key.subagentId === undefined ? '' : `/${key.subagentId}`}`

function collectionIn<T>(collections: Map<string, Map<string, T>>, name: string): Map<string, T> {
  const found = collections.get(name)
  if (found !== undefined) return found
  const made = new Map<string, T>()
  collections.set(name, made)
  return made
}

function put<T>(map: Map<string, T>, key: string, value: T | null): void {
  if (value === null) map.delete(key)
  else map.set(key, value)
}

export function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner)
    Object.freeze(value)
  }
  return value
}

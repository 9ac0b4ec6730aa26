/** Reads the trail of actions whole and judges its chain, also beside the host that writes it. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AuditEntry } from '../../protocol/audit.ts'
import { NO_HASH, readLine } from './audit-chain.ts'
import { trailFiles } from './audit-trail.ts'

export interface ReadTrail {
  readonly count: number
  /** A sentence for each place in which the chain is broken. */
  readonly faults: readonly string[]
  /** A last line without its end: the host is writing it, or had no time to finish it. */
  readonly isLastUnfinished: boolean
}

/** @param onEntry receives each entry, oldest first; a trail may be longer than memory has room for */
export async function readAuditTrail(
  folder: string,
  onEntry: (entry: AuditEntry) => void,
): Promise<ReadTrail> {
  const reader = new TrailReader(onEntry)
  for (const file of await trailFiles(folder))
    reader.readFile(file, await readFile(join(folder, file), 'utf8'))
  return reader
}

class TrailReader implements ReadTrail {
  count = 0
  readonly faults: string[] = []
  isLastUnfinished = false
  #next = 1
  #previous = NO_HASH
  readonly #onEntry: (entry: AuditEntry) => void

  constructor(onEntry: (entry: AuditEntry) => void) {
    this.#onEntry = onEntry
  }

  readFile(file: string, text: string): void {
    if (this.isLastUnfinished) this.faults.push(`entry ${this.#next} is cut off at the end of its file`)
    const lines = text.split('\n')
    this.isLastUnfinished = lines.pop() !== ''
    for (const [at, line] of lines.entries()) this.#readLine(`${file}:${at + 1}`, line)
  }

  #readLine(where: string, line: string): void {
    const { entry, fits, hash } = readLine(line, this.#previous)
    this.#previous = hash
    if (entry === undefined) this.faults.push(`${where} is no entry (entry ${this.#next} should be there)`)
    else if (entry.n !== this.#next) this.faults.push(describeGap(where, this.#next, entry.n))
    else if (!fits) this.faults.push(`${where}: entry ${entry.n} was changed, or the one before it`)
    if (entry !== undefined) {
      this.count += 1
      this.#onEntry(entry)
    }
    this.#next = (entry?.n ?? this.#next) + 1
  }
}

function describeGap(where: string, expected: number, found: number): string {
  if (found < expected) return `${where}: entry ${found} stands where entry ${expected} should`
  const missing = found === expected + 1 ? `entry ${expected} is` : `entries ${expected} to ${found - 1} are`
  return `${where}: ${missing} missing before entry ${found}`
}

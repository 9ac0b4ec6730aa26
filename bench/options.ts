/**
 * Reads the bench's command line.
 */
import { parseArgs } from 'node:util'
import type { Effort } from './entry.ts'

export interface Options {
  readonly effort: Effort
  /** Empty: all entries. */
  readonly only: readonly string[]
  readonly json: string | undefined
  readonly strict: boolean
  readonly help: boolean
}

const FULL = { rounds: 5, roundMs: 2_000 }
const QUICK = { rounds: 2, roundMs: 1_000 }
const ROUNDS_MAX = 100

export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: 'string', multiple: true, default: [] },
      rounds: { type: 'string' },
      quick: { type: 'boolean', default: false },
      json: { type: 'string' },
      strict: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  const { quick, only, json, strict, help } = values
  const effort = { quick, ...(quick ? QUICK : FULL) }
  const rounds = values.rounds === undefined ? effort.rounds : Number(values.rounds)
  if (!Number.isInteger(rounds) || rounds < 1 || rounds > ROUNDS_MAX) {
    throw new Error(`--rounds takes a whole number from 1 to ${ROUNDS_MAX}, not ${values.rounds}`)
  }
  return { effort: { ...effort, rounds }, only, json, strict, help }
}

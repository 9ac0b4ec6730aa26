/** Finds the folders of damaged databases in a data directory, which `check-data --set-aside` has left there. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Damage } from '../core/damage.ts'
import { SET_ASIDE } from '../core/installation.ts'
import { codeOf } from '../protocol/message-of.ts'

/** The file in such a folder that names what was lost. */
export const LOST_FILE = 'lost.json'

export interface SetAsideFolder {
  readonly name: string
  /** Undefined when the list of what was lost cannot be read. */
  readonly at: string | undefined
  /** The ids of what was lost, as checks of the new database name it. */
  readonly lost: ReadonlySet<string>
}

/** Returns the folders that have a list of what was lost. A folder that a person has moved there by hand has none. */
export function findSetAsideFolders(dataDir: string): SetAsideFolder[] {
  return readdirSync(dataDir)
    .filter((name) => name.startsWith('state.') && name.endsWith(SET_ASIDE))
    .flatMap((name) => readLost(dataDir, name) ?? [])
}

/** Returns what the folders of damaged databases in the directory say. */
export function findSetAside(dataDir: string): Damage[] {
  return findSetAsideFolders(dataDir).map(({ name, at, lost }) => ({
    id: `set aside ${name}`,
    where: name,
    message: `a damaged database was set aside ${at ?? 'at an unknown time'}; ${name}/${LOST_FILE} names what is lost unless a backup has it`,
    cure: 'switchyard runs acknowledge, when you have read that file',
    lost: [...lost],
  }))
}

function readLost(dataDir: string, name: string): SetAsideFolder | undefined {
  try {
    const { at, lost }: { at?: unknown; lost?: unknown } = Object(
      JSON.parse(readFileSync(join(dataDir, name, LOST_FILE), 'utf8')),
    )
    const ids = Array.isArray(lost) ? lost.map((each: unknown) => String(Object(each).id)) : []
    return { name, at: String(at), lost: new Set(ids) }
  } catch (error) {
    return codeOf(error) === 'ENOENT' ? undefined : { name, at: undefined, lost: new Set() }
  }
}

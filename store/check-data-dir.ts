/**
 * Checks a data directory, or a copy of its database alone, and changes nothing there.
 *
 * Pages and rows are read without LMDB, which ends the process on a damaged page. While another process uses the
 * directory, a reader of LMDB keeps the pages of one transaction as they are, and that transaction is checked.
 */
import { closeSync, existsSync, openSync, statSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Damage, damageOfEvents } from '../core/damage.ts'
import type { FoundDatabase } from '../core/installation.ts'
import type { RandomSource } from '../core/ports/clock.ts'
import { readConfig } from '../core/settings/read.ts'
import { codeOf, messageOf } from '../protocol/message-of.ts'
import { NotADataDir, StoreTooNew, StoreUnreadable } from './errors.ts'
import { CREDENTIAL_RECORDS_FILE } from './files/credential-records-file.ts'
import { describeUnreadable, findLostEvents, isUnreadable } from './files/event-file-slices.ts'
import { eventsFile } from './files/run-folder.ts'
import { Installation } from './installation.ts'
import { CheckedRows } from './lmdb/checked-rows.ts'
import { DATABASE, damageOfRow } from './lmdb/damage-list.ts'
import { type DataFile, inspectDataFile } from './lmdb/data-file.ts'
import { DatabaseCheck } from './lmdb/database-check.ts'
import { openForReading } from './lmdb/open-environment.ts'
import { FORMAT, INSTALLATION } from './lmdb/origin.ts'
import { describeFault } from './lmdb/start-check.ts'
import { TABLE } from './lmdb/table-names.ts'
import { findOwner } from './lock.ts'
import { findSetAsideFolders } from './set-aside-folders.ts'
import { HOST_TRACES } from './store.ts'
import { WORKER_TRACES } from './worker-store.ts'

export interface DataCheckOptions {
  readonly random: RandomSource
  /** Asked before each page: when it returns false, the rest is not checked. */
  readonly mayGoOn?: () => boolean
}

export interface DataCheck {
  readonly damage: readonly Damage[]
  /** Records that the database lacks since its damaged parts were set aside: the lists in these folders name them. */
  readonly lost: readonly Damage[]
  readonly setAside: readonly string[]
  readonly rows: number
  readonly runs: number
  readonly logFiles: number
  /** A process uses the directory, so its state at one moment was checked. */
  readonly isInUse: boolean
  /** The data directories with damaged pages or rows, which `setAsideDamage` removes. */
  readonly toSetAside: readonly string[]
}

const DATA_FILE = 'data.mdb'
/** The data directory of the host's own worker, in that of the host. */
export const OWN_WORKER = 'worker'
/** A commit of the process that uses the database may lie between the reads of its two first pages. */
const ATTEMPTS_MAX = 20

/** Rejects with NotADataDir, StoreTooNew, StoreUnreadable, or an error of the file system. */
export async function checkDataDir(target: string, options: DataCheckOptions): Promise<DataCheck> {
  if (existsSync(join(target, DATA_FILE))) return checkCopy(target)
  const isFolder = statSync(target, { throwIfNoEntry: false })?.isDirectory() === true
  const names = isFolder ? await readdir(target) : []
  if (!names.includes('state') && !names.includes('installation.json'))
    throw new NotADataDir(
      `${target} holds no data of switchyard; name a data directory, or a copy of its folder state`,
    )
  const own = await checkDirectory(target, options)
  const worker = join(target, OWN_WORKER)
  if (!existsSync(join(worker, 'state', DATA_FILE))) return own
  const found = await checkDirectory(worker, options)
  const ofWorker = found.damage.map((each) => ({ ...each, where: `${OWN_WORKER}/${each.where}` }))
  return {
    ...own,
    rows: own.rows + found.rows,
    damage: [...own.damage, ...ofWorker],
    lost: [...own.lost, ...found.lost],
    setAside: [...own.setAside, ...found.setAside.map((name) => `${OWN_WORKER}/${name}`)],
    toSetAside: [...own.toSetAside, ...found.toSetAside],
  }
}

/** Checks a folder with a database that nobody uses. */
export function checkCopy(folder: string): DataCheck {
  const { damage, rows } = checkDatabase(folder, false)
  const none = { lost: [], setAside: [], toSetAside: [] }
  return { damage, rows: rows.count, runs: rows.runs.size, logFiles: 0, isInUse: false, ...none }
}

async function checkDirectory(dataDir: string, options: DataCheckOptions): Promise<DataCheck> {
  const isInUse = findOwner(dataDir) !== undefined
  const found = checkDatabase(join(dataDir, 'state'), isInUse, options.mayGoOn)
  const { rows } = found
  const logFiles = [...rows.logs].filter(([, { record, sums }]) => record !== undefined || sums.length > 0)
  const setAside = findSetAsideFolders(dataDir)
  const isKnown = ({ id, isMissing }: Damage) =>
    isMissing === true && setAside.some(({ lost }) => lost.has(id))
  const all = [
    ...judgeInstallation(dataDir, found.database, options.random),
    ...found.damage,
    ...(await checkLogs(join(dataDir, 'runs'), rows, options.mayGoOn)),
    ...(await checkFiles(dataDir)),
  ]
  const toSetAside = found.hasDamagedContent ? [dataDir] : []
  return {
    damage: all.filter((each) => !isKnown(each)),
    lost: all.filter(isKnown),
    setAside: setAside.map(({ name }) => name),
    rows: rows.count,
    runs: rows.runs.size,
    logFiles: logFiles.length,
    isInUse,
    toSetAside,
  }
}

// ---- the database --------------------------------------------------------------------------------------------------

interface CheckedDatabase {
  readonly database: FoundDatabase | undefined
  readonly damage: readonly Damage[]
  /** Pages or rows are damaged; else records are missing at most. */
  readonly hasDamagedContent: boolean
  readonly rows: CheckedRows
}

function checkDatabase(folder: string, isInUse: boolean, mayGoOn = () => true): CheckedDatabase {
  const path = join(folder, DATA_FILE)
  const rows = new CheckedRows()
  if (!existsSync(path)) return { database: { is: 'empty' }, damage: [], hasDamagedContent: false, rows }
  const release = isInUse ? keepPages(folder) : () => {}
  const fd = openSync(path, 'r')
  try {
    const file = inspectQuietly(fd)
    if (file.is === 'unreadable')
      return { database: undefined, damage: [damagedPage(file.how)], hasDamagedContent: false, rows }
    if (file.is === 'empty') return { database: { is: 'empty' }, damage: [], hasDamagedContent: false, rows }
    if (file.is === 'truncated')
      return {
        database: { is: 'truncated', path, bytes: file.bytes, bytesMin: file.bytesMin },
        damage: [],
        hasDamagedContent: false,
        rows,
      }
    if (file.is !== 'whole')
      return {
        database: undefined,
        damage: [damagedPage(describeFile(file))],
        hasDamagedContent: true,
        rows,
      }
    let installation: string | undefined
    const check = new DatabaseCheck(fd, file.meta, {
      mayGoOn,
      onRow: (row) => {
        if (row.table === TABLE.meta && row.key === INSTALLATION)
          installation = Buffer.from(row.content).toString('utf8')
        rows.add(row.table, row.key, row.content)
      },
    })
    const isComplete = check.run()
    if (!isInUse) requireUnchanged(fd, file)
    if ((check.format ?? 0) > FORMAT) throw new StoreTooNew(folder, check.format ?? 0, FORMAT)
    const damagedRows = check.damagedRows()
    for (const each of damagedRows) rows.addDamaged(each)
    const damage = [
      ...check.faults().map((fault) => damagedPage(describeFault(fault))),
      ...damagedRows.map(({ table, key }) => damageOfRow(table, key)),
    ]
    const known = new Set(damage.map(({ id }) => id))
    const compared = (isComplete ? rows.findDamage() : []).filter(({ id }) => !known.has(id))
    const database =
      installation === undefined ? ({ is: 'unnamed' } as const) : ({ is: 'named', id: installation } as const)
    return {
      database: damage.length > 0 && installation === undefined ? undefined : database,
      damage: [...damage, ...compared],
      hasDamagedContent: damage.length > 0,
      rows,
    }
  } finally {
    closeSync(fd)
    release()
  }
}

/** Keeps the pages of the newest transaction as they are, until the returned function is called. */
function keepPages(folder: string): () => void {
  const root = openForReading(folder)
  const reader = root.useReadTransaction()
  return () => {
    reader.done()
    void root.close()
  }
}

function inspectQuietly(fd: number): DataFile | { readonly is: 'unreadable'; readonly how: string } {
  try {
    let file = inspectDataFile(fd)
    for (let attempt = 1; file.is !== 'whole' && attempt < ATTEMPTS_MAX; attempt++) file = inspectDataFile(fd)
    return file
  } catch (error) {
    if (isUnreadable(error)) return { is: 'unreadable', how: `its file is ${describeUnreadable(error)}` }
    throw error
  }
}

function requireUnchanged(fd: number, { meta }: Extract<DataFile, { is: 'whole' }>): void {
  const now = inspectDataFile(fd)
  if (now.is !== 'whole' || now.meta.transaction !== meta.transaction)
    throw new StoreUnreadable('the database was changed while it was checked; check it again')
}

const describeFile = (file: Exclude<DataFile, { is: 'whole' | 'empty' | 'truncated' }>): string =>
  file.is === 'damaged' ? `its two first pages ${file.how}` : 'it is not an LMDB database of this version'

export const damagedPage = (how: string): Damage => ({
  id: how,
  where: DATABASE,
  message: `the database is damaged: ${how}`,
})

/** Says whether the database is the one of the directory. */
function judgeInstallation(
  dataDir: string,
  database: FoundDatabase | undefined,
  random: RandomSource,
): Damage[] {
  if (database === undefined) return []
  const isWorker = existsSync(join(dataDir, 'credential.json'))
  const traces = isWorker ? WORKER_TRACES : HOST_TRACES
  try {
    new Installation({ dataDir, random, traces }).identify(database)
    return []
  } catch (error) {
    return [{ id: 'installation', where: 'installation.json', message: messageOf(error) }]
  }
}

// ---- files ---------------------------------------------------------------------------------------------------------

async function checkLogs(runs: string, { logs }: CheckedRows, mayGoOn = () => true): Promise<Damage[]> {
  const damage: Damage[] = []
  for (const [runId, { record, sums }] of logs) {
    if (record === undefined || !mayGoOn()) continue
    const where = `runs/${runId}/events.jsonl`
    const lost = await findLostEvents({ runId, path: eventsFile(runs, runId) }, record, sums)
    damage.push(...lost.map(({ why, ...range }) => damageOfEvents({ runId, ...range }, why, where)))
  }
  return damage
}

/** Files that are read as JSON, and what a damaged one means. */
const JSON_FILES: Readonly<Record<string, string>> = {
  'installation.json': 'and the next start writes it again from the database',
  'credential.json': 'so the worker must be paired again',
  [CREDENTIAL_RECORDS_FILE]: 'so credentials count for the origins that are configured',
}

async function checkFiles(dataDir: string): Promise<Damage[]> {
  const damage: Damage[] = []
  const check = async (name: string, judge: (text: string | undefined) => string | undefined) => {
    const message = await judgeFile(join(dataDir, name), judge)
    if (message !== undefined) damage.push({ id: `file ${name}`, where: name, message })
  }
  await check('config.json', (text) => {
    const read = readConfig(text)
    return read.ok ? undefined : `the configuration cannot be used: ${read.refusal.message}`
  })
  for (const [name, meaning] of Object.entries(JSON_FILES))
    await check(name, (text = '{}') => (isJson(text) ? undefined : `${name} is no JSON, ${meaning}`))
  for (const name of await usageFiles(join(dataDir, 'usage')))
    await check(name, (text = '{}') => (isJson(text) ? undefined : 'the usage of a session cannot be read'))
  return damage
}

/** @param judge gets undefined where there is no such file */
async function judgeFile(
  path: string,
  judge: (text: string | undefined) => string | undefined,
): Promise<string | undefined> {
  try {
    return judge(await readIfThere(path))
  } catch (error) {
    if (isUnreadable(error)) return `the file is ${describeUnreadable(error)}`
    throw error
  }
}

async function usageFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true }).catch(() => [])
  return entries
    .filter((name) => name.endsWith('.json') && !name.split('/').some((part) => part.startsWith('.')))
    .map((name) => `usage/${name}`)
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

function isJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) === 'object'
  } catch {
    return false
  }
}

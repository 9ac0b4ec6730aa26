/**
 * `switchyard audit`: prints who did what from which source, and proves that the trail is whole.
 *
 * The files are read where they are, so the trail of a stopped host, or of a copy, can be read too. The command is a
 * program of its own, because the client commands open no file of the store.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { ActionSource, AuditEntry } from '../../../protocol/audit.ts'
import { AUDIT_FOLDER, readAuditTrail } from '../../../store/files/audit-trail.ts'
import type { TableColumn } from '../../output/table.ts'
import { formatClock, type Present } from '../../output/times.ts'
import { resolveDataDir } from '../../process/data-dir.ts'
import { EXIT, usageError } from '../../process/exit.ts'
import { inDataDir } from '../../process/store-exit-code.ts'
import { type ClientOptions, type CommandContext, runCommand } from '../command/run-command.ts'

interface AuditOptions extends ClientOptions {
  readonly limit?: number | undefined
  readonly source?: ActionSource | undefined
  readonly verify?: true | undefined
  /** A hash that an earlier check printed, or its beginning. */
  readonly head?: string | undefined
}

const LIMIT_DEFAULT = 50
const HEAD_CHARS_MIN = 12

export async function audit(options: AuditOptions): Promise<void> {
  await runCommand(options, async (context) => {
    const dataDir = resolveDataDir(options.dataDir)
    const folder = join(dataDir, AUDIT_FOLDER)
    return await inDataDir(dataDir, async () => {
      requireFolder(folder)
      return options.verify === true || options.head !== undefined
        ? await verify(context, folder)
        : await list(context, folder)
    })
  })
}

/** A folder that this user may not look into is none that is missing. */
function requireFolder(folder: string): void {
  if (statSync(folder, { throwIfNoEntry: false }) !== undefined) return
  throw usageError(
    `${folder} does not exist: no host that keeps a trail has run with this data directory`,
    'name the data directory of the host with --data-dir',
  )
}

async function list(
  { output, options, present }: CommandContext<AuditOptions>,
  folder: string,
): Promise<number> {
  const { source, limit = LIMIT_DEFAULT } = options
  const newest: AuditEntry[] = []
  const { faults } = await readAuditTrail(folder, (entry) => {
    if (source !== undefined && source !== entry.source) return
    newest.push(entry)
    if (newest.length > limit) newest.shift()
  })
  output.list({
    records: newest.reverse(),
    id: ({ n }) => String(n),
    columns: columnsOf(present()),
    empty: 'Nothing was done yet.',
  })
  if (faults.length > 0) output.warn('the trail is not whole. Next: switchyard audit --verify')
  return EXIT.done
}

const columnsOf = (present: Present): TableColumn<AuditEntry>[] => [
  { heading: 'N', cell: ({ n }) => String(n), givesWay: 2 },
  { heading: 'WHEN', cell: ({ at }) => formatClock(Date.parse(at), present), plain: ({ at }) => at },
  { heading: 'FROM', cell: ({ source, by }) => (by === undefined ? source : `${source} ${by}`) },
  { heading: 'DID', cell: ({ action }) => inWords(action) },
  { heading: 'ON', cell: describeObject, shrinksTo: 12, shrinks: 'end' },
  { heading: 'ANSWER', cell: ({ status }) => (status === undefined ? '-' : String(status)), givesWay: 1 },
]

/** `cancelRun` is "cancel run". */
const inWords = (action: string): string => action.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)

function describeObject({ on = {}, keys = [], missed = 0 }: AuditEntry): string {
  const parts = [
    ...Object.entries(on).map(([name, value]) => (name === 'id' ? String(value) : `${name} ${value}`)),
    ...keys,
    ...(missed === 0 ? [] : [`${missed} before it could not be written`]),
  ]
  return parts.length === 0 ? '-' : parts.join(', ')
}

async function verify({ output, options }: CommandContext<AuditOptions>, folder: string): Promise<number> {
  const { head } = options
  if (head !== undefined) requireHash(head)
  let newest: AuditEntry | undefined
  let isHeadThere = head === undefined
  const { count, faults, isLastUnfinished } = await readAuditTrail(folder, (entry) => {
    newest = entry
    if (head !== undefined && entry.hash.startsWith(head)) isHeadThere = true
  })
  const all = [...faults, ...(isHeadThere ? [] : [missingHead(head)])]
  const hash = newest?.hash
  if (output.format === 'json')
    output.json({ folder, entries: count, head: hash, faults: all, isLastUnfinished })
  else for (const fault of all) output.data(output.stdout.clean(fault))
  if (isLastUnfinished)
    output.note(
      'The last line is unfinished: the host is writing it, or was ended before it answered for it.',
    )
  if (all.length === 0)
    output.note(
      hash === undefined
        ? `${folder} holds no entry.`
        : `${folder} is whole: ${count} entries, the newest has the hash ${hash}. Keep it elsewhere: with --head it later proves that nothing was cut off.`,
    )
  return all.length === 0 ? EXIT.done : EXIT.refused
}

function requireHash(head: string): void {
  if (/^[0-9a-f]+$/.test(head) && head.length >= HEAD_CHARS_MIN) return
  throw usageError(`--head: must be a hash, or at least its first ${HEAD_CHARS_MIN} characters`)
}

const missingHead = (head = ''): string =>
  `no entry has the hash ${head}: what was written since, or before, was cut off or rewritten`

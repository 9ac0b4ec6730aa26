/**
 * The list that a diff is drawn from: the rows of all files, and after their lines the threads, the comments of the
 * review, and the boxes of comments being written.
 */
import type { PullThread } from '../../../protocol/pulls.ts'
import {
  type DiffFile,
  type DiffLine,
  type DiffRow,
  type LinePlace,
  placeKey,
  placeOf,
  rowsOfFile,
} from './diff-rows.ts'
import type { LineComment, SentComment } from './diff-state.ts'

/** The keys of the places of a row that have comments. */
interface Marked {
  readonly marks?: ReadonlySet<string>
}

export type DiffListRow =
  | (DiffRow & Marked)
  /** A removed line beside the added one that replaces it, or a line that did not change on both sides. */
  | ({
      readonly is: 'pair'
      readonly file: number
      readonly left?: DiffLine
      readonly right?: DiffLine
    } & Marked)
  /** `isOutdated`: its line is not in the diff any more. */
  | {
      readonly is: 'thread'
      readonly file: number
      readonly thread: PullThread
      readonly isOutdated: boolean
    }
  | { readonly is: 'pending'; readonly file: number; readonly comment: LineComment }
  | { readonly is: 'sent'; readonly file: number; readonly comment: SentComment }
  | { readonly is: 'draft'; readonly file: number; readonly draft: LineComment }

export interface DiffListInput {
  readonly files: readonly DiffFile[]
  readonly threads: readonly PullThread[]
  readonly pending: readonly LineComment[]
  readonly sent: readonly SentComment[]
  readonly drafts: readonly LineComment[]
  readonly isSplit: boolean
  readonly isFolded: (file: DiffFile) => boolean
}

/** Rows are made once for each file. */
const knownRows = new WeakMap<DiffFile, readonly DiffRow[]>()

export function rowsOf(file: DiffFile, at: number): readonly DiffRow[] {
  const known = knownRows.get(file)
  if (known !== undefined && known[0]?.file === at) return known
  const rows = rowsOfFile(file, at)
  knownRows.set(file, rows)
  return rows
}

export function listRows(input: DiffListInput): DiffListRow[] {
  return input.files.flatMap((file, at): readonly DiffListRow[] => {
    const rows = input.isSplit ? pairedRowsOf(file, at) : rowsOf(file, at)
    return input.isFolded(file) ? rows.slice(0, 1) : withComments(rows, file, at, input)
  })
}

const knownPairs = new WeakMap<readonly DiffRow[], readonly DiffListRow[]>()

function pairedRowsOf(file: DiffFile, at: number): readonly DiffListRow[] {
  const rows = rowsOf(file, at)
  const paired = knownPairs.get(rows) ?? pairRows(rows)
  knownPairs.set(rows, paired)
  return paired
}

/** The removed lines of a change stand beside its added lines, in their order. */
function pairRows(rows: readonly DiffRow[]): DiffListRow[] {
  const paired: DiffListRow[] = []
  let [removed, added]: [DiffLine[], DiffLine[]] = [[], []]
  const endChange = (file: number): void => {
    for (let at = 0; at < Math.max(removed.length, added.length); at++) {
      const [left, right] = [removed[at], added[at]]
      paired.push({
        is: 'pair',
        file,
        ...(left === undefined ? {} : { left }),
        ...(right === undefined ? {} : { right }),
      })
    }
    ;[removed, added] = [[], []]
  }
  for (const row of rows) {
    const kind = row.is === 'line' ? row.line.kind : 'context'
    if (kind === 'context' || (kind === 'removed' && added.length > 0)) endChange(row.file)
    if (row.is !== 'line') paired.push(row)
    else if (kind === 'context') paired.push({ is: 'pair', file: row.file, left: row.line, right: row.line })
    else (kind === 'removed' ? removed : added).push(row.line)
  }
  endChange(rows[0]?.file ?? 0)
  return paired
}

/** The lines of a row, the left one first; a line that did not change is one line. */
export function linesOf(row: DiffListRow): DiffLine[] {
  if (row.is === 'line') return [row.line]
  if (row.is !== 'pair') return []
  return [...new Set([row.left, row.right])].filter((line) => line !== undefined)
}

function withComments(
  rows: readonly DiffListRow[],
  file: DiffFile,
  at: number,
  { threads, pending, sent, drafts }: DiffListInput,
): readonly DiffListRow[] {
  const isOwn = ({ path }: { readonly path: string }) => path === file.path
  const [ownThreads, ownPending, ownSent, ownDrafts] = [
    threads.filter(isOwn),
    pending.filter(isOwn),
    sent.filter(isOwn),
    drafts.filter(isOwn),
  ]
  if (ownThreads.length + ownPending.length + ownSent.length + ownDrafts.length === 0) return rows
  const keysOfRow = (row: DiffListRow) => linesOf(row).flatMap((line) => keysOf(file.path, line))
  const places = new Set(rows.flatMap(keysOfRow))
  const after = new Map<string, DiffListRow[]>()
  const lost: DiffListRow[] = []
  const add = (key: string | undefined, row: DiffListRow): void => {
    if (key === undefined || !places.has(key)) lost.push(row)
    else after.set(key, [...(after.get(key) ?? []), row])
  }
  for (const thread of ownThreads) {
    const place = placeOfThread(thread, places)
    const isOutdated = place === undefined
    add(place && placeKey(place), { is: 'thread', file: at, thread, isOutdated })
  }
  for (const comment of ownPending) add(placeKey(comment), { is: 'pending', file: at, comment })
  for (const comment of ownSent) add(placeKey(comment), { is: 'sent', file: at, comment })
  for (const draft of ownDrafts) add(placeKey(draft), { is: 'draft', file: at, draft })
  const lines = rows.slice(1).flatMap((row): DiffListRow[] => {
    if (row.is !== 'line' && row.is !== 'pair') return [row]
    const keys = keysOfRow(row)
    const insets = keys.flatMap((key) => after.get(key) ?? [])
    if (insets.length === 0) return [row]
    const marks = keys.filter((key) => after.get(key)?.some((inset) => inset.is !== 'draft') === true)
    return [{ ...row, marks: new Set(marks) }, ...insets]
  })
  return [...rows.slice(0, 1), ...lost, ...lines]
}

/** A line that did not change has a place on both sides. */
export function keysOf(path: string, line: DiffLine): string[] {
  const key = placeKey(placeOf(path, line))
  return line.kind === 'context' ? [key, placeKey({ path, line: line.before ?? 0, side: 'LEFT' })] : [key]
}

/** A key that stays with its row while comments come and go. */
export function keyOfRow(row: DiffListRow, files: readonly DiffFile[], at: number): string {
  const path = files[row.file]?.path ?? ''
  switch (row.is) {
    case 'file':
      return `file ${path}`
    case 'line':
      return placeKey(placeOf(path, row.line))
    case 'pair': {
      const line = row.right ?? row.left
      return line === undefined ? `pair ${at}` : `pair ${placeKey(placeOf(path, line))}`
    }
    case 'thread':
      return `thread ${row.thread.id}`
    case 'draft':
      return `draft ${placeKey(row.draft)}`
    case 'sent':
      return `sent ${placeKey(row.comment)} ${row.comment.at}`
    case 'pending':
      return `pending ${placeKey(row.comment)} ${row.comment.body.slice(0, 40)}`
    default:
      return `${row.is} ${at}`
  }
}

type ThreadPlace = Pick<PullThread, 'path' | 'line' | 'diffHunk'>

/**
 * Finds the line of a thread, unless the diff has it no more. A thread names its line but not its side, so the last
 * line of its hunk tells: a removed line stands on the left.
 *
 * @param places the keys of all places of the diff
 */
export function placeOfThread(
  { path, line, diffHunk }: ThreadPlace,
  places: ReadonlySet<string>,
): LinePlace | undefined {
  if (line === undefined) return undefined
  const isRemoved = diffHunk.trimEnd().split('\n').at(-1)?.startsWith('-') === true
  const sides = isRemoved ? (['LEFT', 'RIGHT'] as const) : (['RIGHT', 'LEFT'] as const)
  return sides.map((side) => ({ path, line, side })).find((place) => places.has(placeKey(place)))
}

/**
 * A diff whose lines can be commented on: the files one below the other, scrolling with the page.
 *
 * The page around it owns the state, so that its head and its side panel can show what waits to be sent.
 */
import { computed } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useMemo, useRef } from 'preact/hooks'
import type { PullThread } from '../../../protocol/pulls.ts'
import { PlacedRow } from '../../elements/placed-row.tsx'
import { useVirtualList } from '../../elements/virtual-list.ts'
import type { LineComment } from './agent-instructions.ts'
import { DraftBox, PendingComment } from './diff-comments.tsx'
import { DiffFileHead } from './diff-file-head.tsx'
import { useDiffKeys } from './diff-keys.ts'
import { DiffLineRow } from './diff-line.tsx'
import { type DiffListRow, keyOfRow, listRows } from './diff-list.ts'
import { type DiffFile, type DiffNote, type LinePlace, placeKey, placeOf } from './diff-rows.ts'
import type { DiffState } from './diff-state.ts'

export interface DiffProps {
  readonly state: DiffState
  readonly files: readonly DiffFile[]
  readonly threads?: readonly PullThread[]
  readonly drawThread?: (thread: PullThread, isOutdated: boolean) => ComponentChildren
  /** The address of a file whose diff is not shown. */
  readonly linkOf?: (file: DiffFile) => string | undefined
  /** Sends instructions to the agent of the run. A rejection is shown in the box. */
  readonly sendToAgent?: (instructions: string) => Promise<void>
  /** Why the agent cannot be sent anything now. */
  readonly sendUnavailable?: string | undefined
  /** Why no review can be written now. */
  readonly reviewUnavailable?: string | undefined
  /** Receives a function that scrolls to the head of a file. */
  readonly opener?: { current: ((file: DiffFile) => void) | undefined }
}

const NOTES: Readonly<Record<DiffNote, string>> = {
  binary: 'A binary file, or a change without lines.',
  'too-large': 'The diff of this file is too large to show.',
  renamed: 'Renamed without changes.',
  'no-newline': 'No newline at the end of the file',
}

const HEIGHTS: Readonly<Partial<Record<DiffListRow['is'], number>>> = {
  file: 52,
  thread: 160,
  draft: 142,
  pending: 88,
}
const LINE_HEIGHT = 20

const NO_THREADS: readonly PullThread[] = []

export function Diff(props: DiffProps) {
  const { state, files } = props
  const threads = props.drawThread === undefined ? NO_THREADS : (props.threads ?? NO_THREADS)
  const rows = useMemo(
    () =>
      computed(() =>
        listRows({
          files,
          threads,
          pending: state.pending,
          drafts: state.drafts,
          isFolded: (file) => state.isFolded(file),
        }),
      ),
    [state, files, threads],
  ).value
  const list = useVirtualList({
    count: rows.length,
    version: rows,
    keyOf: (at) => keyAt(rows, files, at),
    heightOf: (at) => HEIGHTS[rows[at]?.is ?? 'line'] ?? LINE_HEIGHT,
  })
  const opened = useRef<string | undefined>(undefined)
  const open = (place: LinePlace, from?: number): void => {
    opened.current = placeKey(place)
    state.open(place, from)
  }
  const showFile = (file: DiffFile): void => {
    const at = rows.findIndex((row) => row.is === 'file' && files[row.file] === file)
    if (at >= 0) list.scrollTo(at, 'start')
  }
  if (props.opener !== undefined) props.opener.current = showFile
  useDiffKeys({
    state,
    files,
    rows,
    list,
    open,
    showFile,
    isOpenable: props.reviewUnavailable === undefined || props.sendToAgent !== undefined,
  })
  return (
    <div ref={list.space} class="diff" role="table" aria-label="Changed files" aria-rowcount={rows.length}>
      {list.items.map((item) => {
        const row = rows[item.index]
        return (
          row !== undefined && (
            <PlacedRow
              key={item.key}
              class={`diff-row ${row.is}${isLastOfFile(rows, item.index) ? ' last' : ''}`}
              index={item.index}
              top={list.topOf(item)}
              measure={list.measure}
            >
              <DiffRowContent row={row} diff={props} open={open} isNew={isOpened(row, opened.current)} />
            </PlacedRow>
          )
        )
      })}
    </div>
  )
}

function keyAt(rows: readonly DiffListRow[], files: readonly DiffFile[], at: number): string {
  const row = rows[at]
  return row === undefined ? String(at) : keyOfRow(row, files, at)
}

const isLastOfFile = (rows: readonly DiffListRow[], at: number): boolean =>
  rows[at + 1]?.file !== rows[at]?.file

const isOpened = (row: DiffListRow, key: string | undefined): boolean =>
  row.is === 'draft' && placeKey(row.draft) === key

interface RowContentProps {
  readonly row: DiffListRow
  readonly diff: DiffProps
  readonly open: (place: LinePlace, from?: number) => void
  readonly isNew: boolean
}

function DiffRowContent({ row, diff, open, isNew }: RowContentProps) {
  const { state, files } = diff
  const file = files[row.file]
  if (file === undefined) return null
  switch (row.is) {
    case 'file':
      return <DiffFileHead state={state} file={file} />
    case 'hunk':
      return (
        <div class="diff-hunk" role="cell">
          {row.text}
        </div>
      )
    case 'note':
      return <NoteRow note={row.note} link={diff.linkOf?.(file)} />
    case 'line': {
      const place = placeOf(file.path, row.line)
      const chosen = state.current.value
      const comment = (isRange: boolean): void => {
        const isSameSide = chosen?.path === place.path && chosen.side === place.side
        state.current.value = place
        open(place, isRange && isSameSide ? chosen.line : undefined)
      }
      return (
        <DiffLineRow
          line={row.line}
          place={place}
          choose={() => {
            state.current.value = place
          }}
          isChosen={isChosen(place, chosen, state.drafts)}
          comment={
            diff.reviewUnavailable === undefined || diff.sendToAgent !== undefined ? comment : undefined
          }
        />
      )
    }
    case 'thread':
      return (
        <div class="diff-inset" role="cell">
          {diff.drawThread?.(row.thread, row.isOutdated)}
        </div>
      )
    case 'pending':
      return <PendingComment state={state} comment={row.comment} />
    case 'draft':
      return (
        <div class="diff-inset" role="cell">
          <DraftBox draft={row.draft} diff={diff} isNew={isNew} />
        </div>
      )
  }
}

/** The line of the keys, and the lines of a comment on several. */
const isChosen = (place: LinePlace, chosen: LinePlace | undefined, drafts: readonly LineComment[]): boolean =>
  (chosen !== undefined && placeKey(chosen) === placeKey(place)) ||
  drafts.some(
    ({ path, side, from, line }) =>
      from !== undefined &&
      path === place.path &&
      side === place.side &&
      place.line >= from &&
      place.line <= line,
  )

function NoteRow({ note, link }: { readonly note: DiffNote; readonly link: string | undefined }) {
  return (
    <div class="diff-note" role="cell">
      {NOTES[note]} {note === 'too-large' && link !== undefined && <a href={link}>Open the file</a>}
    </div>
  )
}

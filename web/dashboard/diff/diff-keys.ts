/** The keys of a diff: next and previous file and line, comment, viewed. */
import { useActs } from '../../elements/acts.ts'
import type { VirtualList } from '../../elements/virtual-list.ts'
import type { DiffListRow } from './diff-list.ts'
import { type DiffFile, type LinePlace, placeKey, placeOf } from './diff-rows.ts'
import type { DiffState } from './diff-state.ts'

export interface DiffKeysInput {
  readonly state: DiffState
  readonly files: readonly DiffFile[]
  readonly rows: readonly DiffListRow[]
  readonly list: VirtualList
  readonly open: (place: LinePlace) => void
  readonly showFile: (file: DiffFile) => void
  readonly isOpenable: boolean
}

export function useDiffKeys(input: DiffKeysInput): void {
  const { state, files, open, isOpenable } = input
  const { stepFile, stepLine, currentFile } = stepsOf(input)
  const current = state.current.value
  const group = 'Diff'
  useActs([
    { id: 'diff-next-file', title: 'Next file', group, keys: ']', act: () => stepFile(1) },
    { id: 'diff-previous-file', title: 'Previous file', group, keys: '[', act: () => stepFile(-1) },
    { id: 'diff-next-line', title: 'Next line', group, keys: 'j', act: () => stepLine(1) },
    { id: 'diff-previous-line', title: 'Previous line', group, keys: 'k', act: () => stepLine(-1) },
    {
      id: 'diff-comment',
      title: 'Comment on the chosen line',
      group,
      keys: 'c',
      unavailable:
        current === undefined
          ? 'Choose a line with J and K first.'
          : isOpenable
            ? undefined
            : 'No review can be written now.',
      act: () => {
        if (current !== undefined) open(current)
      },
    },
    {
      id: 'diff-viewed',
      title: 'Mark the file as viewed',
      group,
      keys: 'v',
      act: () => {
        const file = files[currentFile()]
        if (file !== undefined) state.toggleViewed(file)
      },
    },
  ])
}

function stepsOf({ state, files, rows, list, showFile }: DiffKeysInput) {
  const placeAt = (at: number): LinePlace | undefined => {
    const row = rows[at]
    const path = row === undefined ? undefined : files[row.file]?.path
    return row?.is === 'line' && path !== undefined ? placeOf(path, row.line) : undefined
  }
  const currentRow = (): number => {
    const { value } = state.current
    if (value === undefined) return -1
    const key = placeKey(value)
    return rows.findIndex((_, at) => {
      const place = placeAt(at)
      return place !== undefined && placeKey(place) === key
    })
  }
  /** The file of the chosen line, or the first file in view. */
  const currentFile = (): number => {
    const at = currentRow()
    const top = list.items.find((item) => item.end > scrollY + 60)
    return rows[at >= 0 ? at : (top?.index ?? 0)]?.file ?? 0
  }
  const stepLine = (step: 1 | -1): void => {
    const from = currentRow()
    let at = from >= 0 ? from + step : (list.items.find(({ index }) => placeAt(index))?.index ?? 0)
    while (at >= 0 && at < rows.length && placeAt(at) === undefined) at += step
    const place = placeAt(at)
    if (place === undefined) return
    state.current.value = place
    list.scrollTo(at)
  }
  const stepFile = (step: 1 | -1): void => {
    const file = files[currentFile() + step]
    if (file === undefined) return
    const at = rows.findIndex((row) => row.is === 'line' && files[row.file] === file)
    state.current.value = placeAt(at)
    showFile(file)
  }
  return { stepFile, stepLine, currentFile }
}

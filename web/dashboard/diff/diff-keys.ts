/** The keys of a diff: next and previous file and line, comment, viewed. */
import { signal } from '@preact/signals'
import { useActs } from '../../elements/acts.ts'
import type { VirtualList } from '../../elements/virtual-list.ts'
import { keepText, readKeptText } from '../../kept-text.ts'
import { type DiffListRow, linesOf } from './diff-list.ts'
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
  /** Whether two columns fit. */
  readonly maySplit: boolean
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
      id: 'diff-layout',
      title: diffLayout.value === 'split' ? 'Show the diff in one column' : 'Show the diff in two columns',
      group,
      unavailable: input.maySplit ? undefined : 'Two columns need a wider window.',
      act: () => chooseLayout(diffLayout.value === 'split' ? 'unified' : 'split'),
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
  /** Two columns have two places in a row, the left one first. */
  const placesAt = (at: number): LinePlace[] => {
    const row = rows[at]
    const path = row === undefined ? undefined : files[row.file]?.path
    return row === undefined || path === undefined ? [] : linesOf(row).map((line) => placeOf(path, line))
  }
  const currentKey = () => (state.current.value === undefined ? undefined : placeKey(state.current.value))
  const indexAt = (at: number): number => placesAt(at).findIndex((place) => placeKey(place) === currentKey())
  const currentRow = (): number =>
    state.current.value === undefined ? -1 : rows.findIndex((_, at) => indexAt(at) >= 0)
  /** The file of the chosen line, or the first file in view. */
  const currentFile = (): number => {
    const at = currentRow()
    const top = list.items.find((item) => item.end > scrollY + 60)
    return rows[at >= 0 ? at : (top?.index ?? 0)]?.file ?? 0
  }
  const stepLine = (step: 1 | -1): void => {
    const from = currentRow()
    const beside = from < 0 ? undefined : placesAt(from)[indexAt(from) + step]
    let at = from >= 0 ? from : (list.items.find(({ index }) => placesAt(index).length > 0)?.index ?? 0)
    if (from >= 0 && beside === undefined) at += step
    while (at >= 0 && at < rows.length && placesAt(at).length === 0) at += step
    const place = beside ?? placesAt(at).at(step === 1 ? 0 : -1)
    if (place === undefined) return
    state.current.value = place
    list.scrollTo(at)
  }
  const stepFile = (step: 1 | -1): void => {
    const file = files[currentFile() + step]
    if (file === undefined) return
    const at = rows.findIndex((row, at) => files[row.file] === file && placesAt(at).length > 0)
    state.current.value = placesAt(at)[0]
    showFile(file)
  }
  return { stepFile, stepLine, currentFile }
}

type DiffLayout = 'unified' | 'split'

const NAME = 'switchyard.diff-layout'

export const diffLayout = signal<DiffLayout>(readKeptText(NAME) === 'split' ? 'split' : 'unified')

/** Whether a diff stands in one column or in two. The browser keeps the choice for every diff. */
export function chooseLayout(layout: DiffLayout): void {
  diffLayout.value = layout
  keepText(NAME, layout)
}
